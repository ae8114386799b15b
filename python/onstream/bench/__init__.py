"""`onstream bench`: measures on this machine, beside other libraries where they can be had.

Reading order: cases.py (what is measured), samples.py (the statistics, in full), message.py (the driver), programs.py
and peers.py (what is started), bars.py (what the figures must reach), table.py and lines.py; then the benches that
are not of messages: paths.py, aggregation.py, startup.py, ping_kernel_pong.py, upc.py; at last report.py. commands.py
has the options of each.
"""

from .commands import bench_app

__all__ = ["bench_app"]
