"""The command: `python tests/soak --seconds 3600 --seed 1` runs episodes, `--replay SEED` one of them again.

`--rank-of SEED` is for the jobs that it starts: one rank of that episode.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[0] = str(TESTS)
sys.path.insert(1, str(TESTS / "python"))  # memories.py

from soak.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
