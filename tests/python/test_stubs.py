"""The type stub of the compiled module equals the module's own description."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "python" / "onstream" / "_core.pyi"


def test_the_stub_is_current(tmp_path: Path) -> None:
    fresh = tmp_path / "_core.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-P", "-m", "onstream._core", "-o"]
    subprocess.run([*command, str(fresh)], check=True, timeout=60)
    assert fresh.read_text() == STUB.read_text(), f"renew it: {' '.join(command)} {STUB.relative_to(ROOT)}"
