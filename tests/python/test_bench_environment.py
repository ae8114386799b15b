"""A result's record of the machine that measured it."""

from __future__ import annotations

from pathlib import Path

import pytest
from onstream.bench import environment

ANSWER = "NVIDIA H200, 580.1, 00000000:0A:00.0, 1980 MHz, 1980 MHz, 3201 MHz, 700.00 W"


def nvidia_smi(folder: Path, answer: str) -> None:
    """A program of this name that prints each fact that it is asked for, and the answer to standard output."""
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "$1" > "{folder}/asked"\ncat <<END\n{answer}\nEND\n')
    program.chmod(0o755)


def test_gpus_are_told_with_their_clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, f"{ANSWER}\n{ANSWER.replace('0A', '0B')}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    first, second = environment.gpus()
    assert (first["name"], first["driver"], first["sm_clock"]) == ("NVIDIA H200", "580.1", "1980 MHz")
    assert second["bus"] == "00000000:0B:00.0"
    asked = (tmp_path / "asked").read_text().strip().removeprefix("--query-gpu=").split(",")
    assert len(asked) == len(ANSWER.split(", "))


@pytest.mark.parametrize("answer", ["", "No devices were found", "NVIDIA H200, 580.1"])
def test_an_answer_of_another_kind_is_no_gpu(answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, answer)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert environment.gpus() == []


def test_variables_that_change_figures_are_told_and_secrets_are_not() -> None:
    given = {
        "ONSTREAM_LL_MAX_BYTES": "64",
        "NCCL_NVLS_ENABLE": "0",
        "CUDA_VISIBLE_DEVICES": "1",
        "ONSTREAM_SECRET": "mine",
        "PATH": "/bin",
        "MY_NCCL_FORK": "1",
    }
    told = environment.variables(given)
    assert list(told) == ["CUDA_VISIBLE_DEVICES", "NCCL_NVLS_ENABLE", "ONSTREAM_LL_MAX_BYTES"]


def test_what_cannot_be_found_out_is_null(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = environment.collect()
    assert told["git"] is None
    assert told["gpus"] == []
    assert told["cores"] >= 1
