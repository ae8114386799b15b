"""make gpu-check fails where a native program has seen no GPU: a run on the host alone proves nothing there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, build_folder
from test_native import programs

LIMIT_S = 100


def program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def gpu_check(folder: Path, says: str) -> subprocess.CompletedProcess[str]:
    """Runs the check's native part where nvidia-smi tells of one GPU and every program says the same."""
    program(folder / "bin" / "nvidia-smi", "echo 0")
    program(folder / "build" / "says", says)
    (folder / "build" / "CMakeCache.txt").write_text("ONSTREAM_CUDA:STRING=ON\n")
    native = folder / "build" / "tests" / "native"
    native.mkdir(parents=True)
    for source in programs():
        (native / f"test_{source.stem}").symlink_to(folder / "build" / "says")
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "BUILD": str(folder / "build"), "PARTS": "native", "WHEELS": str(folder)}
    command = ["bash", str(ROOT / "tools" / "gpu_check.sh")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)


def test_programs_that_ran_on_a_gpu_pass(tmp_path: Path) -> None:
    result = gpu_check(tmp_path, "echo 'ok      a_case'")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "all passed" in result.stdout


@pytest.mark.parametrize(
    "says",
    [
        "echo 'skipped cuda: no driver'; echo 'ok      a_case'",
        "echo 'skipped a_case@cuda'; echo '        no cuda device: no driver'; echo 'ok      a_case@host'",
    ],
)
def test_programs_that_left_their_cuda_rows_out_fail(says: str, tmp_path: Path) -> None:
    result = gpu_check(tmp_path, says)
    assert result.returncode == 1, result.stdout + result.stderr
    rows = [line for line in result.stdout.splitlines() if line.startswith("test_")]
    assert len(rows) == len(programs())
    assert all(line.split()[1:4] == ["1", "0", "1"] and "GPU rows were skipped" in line for line in rows)


def test_a_native_program_that_sees_no_gpu_says_so_once() -> None:
    command = [str(build_folder() / "tests" / "native" / "test_halo"), "several_arrays_share_one_plan",
               "a_captured_halo_replays_like_an_eager_one"]  # fmt: skip
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("skipped cuda: ")
    assert len(lines[0]) > len("skipped cuda: ")
    assert [line.split()[0] for line in lines[1:]] == ["ok", "ok", "2"]
