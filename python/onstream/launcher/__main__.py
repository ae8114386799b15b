"""`python -m onstream.launcher`, and the folder itself as a program: python3 python/onstream/launcher -n 4 PROGRAM..."""

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    if not __package__:  # then without the rest of onstream, which may not be built for this Python
        sys.path[0] = str(Path(__file__).resolve().parents[1])
    sys.exit(import_module(__package__ or "launcher").main())
