"""`onstream bench`: measures on this machine, beside other libraries where they can be had.

Reading order: cases.py (what is measured), samples.py (the statistics, in full), message.py (the driver), programs.py
and peers.py (what is started), bars.py (what the figures must reach), results.py and table.py; then the benches that are
not of messages: paths.py, aggregation.py, startup.py, ping_kernel_pong.py, one_sided.py, collective.py, am.py, upc.py; at
last what shows every kind, lines.py and report.py. commands.py has the options of each.
"""

from .commands import bench_app

__all__ = ["bench_app"]
