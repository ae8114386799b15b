"""Jobs of real processes for tests: a program's text, run as several ranks by `onstream run`, with a deadline."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def run_job(folder: Path, size: int, program: str, *, options: tuple[str, ...] = (), timeout_s: float = 60) -> Outcome:
    """Runs the program's text in `folder` as `size` ranks. Fails the test if it is not over in time."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "onstream", "run", "-n", str(size), *options, sys.executable, str(script)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s)
    return Outcome(ended.returncode, ended.stdout, ended.stderr)
