"""`onstream demo`: a tsunami over real sea floor, computed by many ranks that trade halos on a stream.

run_demo() is all that the command line needs. How the parts fit:

    bathymetry.py   a file becomes elevations        sea.py      elevations become a grid in metres
    voyage.py       source, gauges, travel times     job.py      input and result of the ranks, as files
    rank.py         the program of every rank        driver.py   starts them and has the report written
    page.py, svg.py, raster.py, picture.py           the report

The solver itself is C++ (apps/tsunami).
"""

from __future__ import annotations

from .driver import run_demo

__all__ = ["run_demo"]
