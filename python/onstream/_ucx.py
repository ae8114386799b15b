"""Where the Python package libucx keeps libucp.so.0, for the library to load when messages go to other hosts.

Nothing is imported and nothing loaded: the file is looked for on sys.path, and named by ONSTREAM_UCX_WHEEL (parameter
ucx_wheel), which a program may have set itself. This costs some microseconds of every `import onstream`, hence no pathlib.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "ONSTREAM_UCX_WHEEL"
LIBRARY = os.path.join("libucx", "lib", "libucp.so.0")


def find_library() -> str | None:
    """The first libucp.so.0 of a package libucx on sys.path."""
    candidates = (os.path.abspath(os.path.join(folder, LIBRARY)) for folder in sys.path)
    return next((file for file in candidates if os.path.isfile(file)), None)


def name_library() -> None:
    """Sets the variable for this process and those that it starts, if nobody has."""
    if VARIABLE in os.environ:
        return
    library = find_library()
    if library is not None:
        os.environ[VARIABLE] = library


name_library()
