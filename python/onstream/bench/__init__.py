"""`onstream bench`: measures on this machine, beside other libraries where they can be had.

Reading order: cases.py (the cases), samples.py (the statistics, in full), message.py (the driver), programs.py and
peers.py (the programs it starts), bars.py (the bars that the figures must reach), results.py and table.py; then the
benches of other things: paths.py, aggregation.py, startup.py, ping_kernel_pong.py, one_sided.py, collective.py, am.py,
upc.py, applications.py (whole programs); at last lines.py and report.py, which show results of every kind. commands.py has the options of each.
"""

from .commands import bench_app

__all__ = ["bench_app"]
