"""The soak (tests/soak), for some seconds; and that it fails where a result is not the expected one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def soak(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    patient = ("--deadline-s", "40", "--limit-s", "95")  # the machine may run other tests as well
    command = [sys.executable, str(ROOT / "tests" / "soak"), "--keep", str(folder / "failures"), *patient, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=110)


def test_a_short_soak_is_clean(tmp_path: Path) -> None:
    ended = soak(tmp_path, "--seconds", "12", "--ranks", "2-4", "--seed", "20")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "FAILED" not in ended.stdout
    assert " results checked" in ended.stdout


@pytest.mark.parametrize("disturbance", ["none", "rank-threads"])
def test_a_wrong_value_fails_the_soak_and_is_told_with_its_replay(disturbance: str, tmp_path: Path) -> None:
    words = ("--only", f"{disturbance},messages", "--ranks", "2", "--self-test")
    ended = soak(tmp_path, "--seconds", "0.1", "--seed", "5", *words)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "bytes differ, from byte 0 to 0" in ended.stdout
    assert f"--ranks 2 --only {disturbance},messages" in ended.stdout
    assert len(list((tmp_path / "failures").iterdir())) == 1
