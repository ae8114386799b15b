"""The bench: other libraries in the same run - found, driven, or named with their missing parts."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench_results import LINE
from mpi_programs import call, mpi_of
from onstream.bench import message, mpi, peers, programs, table
from onstream.bench.cases import MODES, Case, cases_of
from onstream.errors import Error, InvalidArgumentError, UnsupportedError

ROOT = Path(__file__).resolve().parents[2]


def test_peers_that_need_a_gpu_are_named_with_the_reason_where_there_is_none() -> None:
    settings = message.Settings(
        modes=("ping-pong",), submissions=("eager",), sizes=(8,), memories=("device",), rounds=1, samples=1,
        quick=True, vs=("nccl", "nvshmem"),
    )  # fmt: skip
    result = message.measure(settings)
    assert set(result["peers_missing"]) == {"nccl", "nvshmem"}
    text = "\n".join(table.verdict_lines(result))
    assert "without NCCL: NCCL moves messages between GPUs, and the device is host" in text
    assert "without NVSHMEM: " in text


@pytest.mark.parametrize("library", ["nccl", "nvshmem"])
def test_a_library_that_lacks_a_function_is_named_with_it(library: str) -> None:
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    own = programs.message_program("host", options=("--library", library, "--file", libc))
    with pytest.raises(Error, match=rf"{re.escape(libc)} has no function"):
        programs.run(own, [Case("ring", "eager", 8, 1, 1)], 1)


def stand_in(library: str, ranks: int = 2) -> programs.Program:
    """The driver of a library that needs a GPU, over a stand-in that does not."""
    file = programs.build_folder() / "tests" / "native" / f"libstand_in_{library}.so"
    if not file.exists():
        pytest.skip(f"there is no {file.name}; build with ONSTREAM_TESTS=ON (make build does)")
    return programs.message_program("host", ranks=ranks, options=("--library", library, "--file", str(file)))


@pytest.mark.parametrize("library", ["nccl", "nvshmem"])
def test_every_case_of_a_gpu_library_moves_the_right_data_again_and_again(library: str) -> None:
    cases = [
        case
        for case in cases_of("host", MODES, ("eager", "captured"), (0, 8, 4096, 65536), window=8, quick=True)
        if peers.PEERS[library].has(case)
    ]
    cases = [replace(case, iterations=3) for case in cases]  # an odd number of replays, so that sets change places
    output = programs.run(stand_in(library), cases, 4, 60)
    assert set(output.samples_s) == set(cases)
    assert all(len(samples) == 4 for samples in output.samples_s.values())


@pytest.mark.parametrize("library", ["nccl", "nvshmem"])
def test_a_gpu_librarys_ring_goes_round_many_ranks(library: str) -> None:
    cases = [Case("ring", "eager", 8, 5, 1), Case("ring", "captured", 4096, 3, 8)]
    output = programs.run(stand_in(library, ranks=3), cases, 2, 60)
    assert output.heading["ranks"] == 3
    assert set(output.samples_s) == set(cases)


def test_a_captured_ring_of_nvshmem_needs_as_many_steps_as_ranks() -> None:
    with pytest.raises(Error, match="rings of at least 3 steps in a graph, the case has 2"):
        programs.run(stand_in("nvshmem", ranks=3), [Case("ring", "captured", 8, 2, 2)], 1, 60)


def test_what_nvshmem_has_not_is_refused_with_words() -> None:
    with pytest.raises(Error, match="NVSHMEM has no operations that are prepared and posted together"):
        programs.run(stand_in("nvshmem"), [Case("aggregated", "eager", 8, 2, 4)], 1, 60)


def test_a_peer_that_ends_early_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(_job: peers.Job) -> programs.Program:
        return programs.Program("mpich", (sys.executable, "-c", f"print('{LINE}'); raise SystemExit('out of luck')"))

    monkeypatch.setitem(peers.PEERS, "mpich", replace(peers.PEERS["mpich"], prepare=prepare))
    settings = message.Settings(
        modes=("ping-pong",), submissions=("host",), sizes=(8,), memories=("device",), rounds=2, samples=1,
        quick=True, vs=("mpich",),
    )  # fmt: skip
    result = message.measure(settings)
    assert "round 1" in result["peers_missing"]["mpich"]
    assert "out of luck" in result["peers_missing"]["mpich"]
    assert next(one for one in result["rows"] if one["who"] == "onstream")["rounds"] == 2


def test_vs_is_read_and_misread_with_the_known_names() -> None:
    assert peers.names_from("nccl,nccl,nvshmem", "cuda") == ("nccl", "nvshmem")
    assert peers.names_from("none", "cuda") == ()
    assert set(peers.names_from("mpi", "host")) >= {"openmpi", "mpich"}
    assert peers.names_from("auto", "cuda")[:2] == ("nccl", "nvshmem")
    with pytest.raises(InvalidArgumentError, match=r"'lam'; there are auto, none, mpi, nccl"):
        peers.names_from("lam", "host")


def test_no_peer_gets_a_case_that_it_has_not() -> None:
    def has(name: str, mode: str, submission: str) -> bool:
        return peers.PEERS[name].has(Case(mode, submission, 8, 1, 1))

    assert has("nccl", "aggregated", "captured")
    assert not has("nccl", "ring-plan", "captured")
    assert not has("nvshmem", "separate", "eager")  # nothing would hold the sender back
    assert not has("nvshmem", "bidirectional", "captured")
    assert has("nvshmem", "ring", "captured")
    assert not has("mpich", "aggregated", "host")


def test_a_library_is_found_beside_the_loaders_path_and_else_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libmade_up.so.7").touch()
    with pytest.raises(mpi.PeerMissing, match=r"no libmade_up\.so\.7.*pip install made-up"):
        peers.find_library("made_up", "libmade_up.so.7", "made-up")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    assert peers.find_library("made_up", "libmade_up.so.7", "made-up") == str(tmp_path / "libmade_up.so.7")


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler (cc, gcc)")
def test_a_peer_that_cannot_be_installed_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONSTREAM_OFFLINE", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    with pytest.raises(UnsupportedError, match=r"(?s)installing mpich==.*--vs none"):
        mpi.prepare(mpi.MPIS["mpich"], ROOT / "bench" / "message" / "mpi_peer.c", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler (cc, gcc)")
def test_offline_no_peer_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONSTREAM_OFFLINE", "1")
    with pytest.raises(UnsupportedError, match=r"mpich==.*ONSTREAM_OFFLINE forbids"):
        mpi.prepare(mpi.MPIS["mpich"], ROOT / "bench" / "message" / "mpi_peer.c", tmp_path)


@pytest.mark.limit(400)
@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_an_mpi_runs_where_onstream_may_run(name: str) -> None:
    # In one write, which no other process's comes into.
    told = "import os; os.write(1, f'may use {sorted(os.sched_getaffinity(0))}\\n'.encode())"
    found = mpi_of(name)
    started = mpi.starter(mpi.MPIS[found.name], found.prefix / "bin" / "mpicc", 2)
    command = [*started, sys.executable, "-c", told]
    status, output = call(command, 60)
    assert status == 0, output
    assert output.count(f"may use {sorted(os.sched_getaffinity(0))}") == 2, output


def test_no_mpi_is_installed_when_that_is_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONSTREAM_OFFLINE", "1")
    monkeypatch.setattr("mpi_programs.build_folder", lambda: tmp_path)
    found = {name: shutil.which(name) for name in ("cc", "gcc")}
    monkeypatch.setattr(mpi.shutil, "which", found.get)  # the machine has no MPI of its own
    with pytest.raises(pytest.skip.Exception, match="ONSTREAM_OFFLINE forbids"):
        mpi_of("mpich")
    assert not list(tmp_path.iterdir())
