"""Where the Python package libucx keeps libucp.so.0, for the library to load when messages go to other hosts.

Nothing is imported and nothing loaded: the file is looked for on sys.path, and named by ONSTREAM_UCX_WHEEL (parameter
ucx_wheel), which a program may have set itself.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "ONSTREAM_UCX_WHEEL"
LIBRARY = Path("libucx", "lib", "libucp.so.0")


def find_library() -> Path | None:
    """The first libucp.so.0 of a package libucx on sys.path."""
    candidates = (Path(folder or ".") / LIBRARY for folder in sys.path)
    return next((file.absolute() for file in candidates if file.is_file()), None)


def name_library() -> None:
    """Sets the variable for this process and those that it starts, if nobody has."""
    if VARIABLE in os.environ:
        return
    library = find_library()
    if library is not None:
        os.environ[VARIABLE] = str(library)


name_library()
