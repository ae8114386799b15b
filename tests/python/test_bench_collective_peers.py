"""`onstream bench collective` beside NVSHMEM and PyTorch's symmetric memory: driven over stand-ins, or named as missing."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from onstream.bench import collective, lines, mpi, peers, programs, report

import onstream as ons

STAND_INS = Path(__file__).resolve().parent / "stand_ins"


def settings_of(**changes: Any) -> collective.Settings:
    given: dict[str, Any] = {
        "ranks": 3, "kinds": ("all_reduce", "all_gather"), "sizes": (8, 4096), "submissions": ("eager", "captured"),
        "rounds": 2, "samples": 3, "quick": True, "limit_s": 60.0,
    }  # fmt: skip
    return collective.Settings(**{**given, **changes}).resolved()


def nvshmem_of(settings: collective.Settings, cases: list[collective.Case]) -> collective.Contender:
    file = programs.build_folder() / "tests" / "native" / "libstand_in_nvshmem.so"
    if not file.exists():
        pytest.skip(f"there is no {file.name}; build with ONSTREAM_TESTS=ON (make build does)")
    return collective.nvshmem_over(str(file), "nvshmem", settings, cases)


def torch_of(settings: collective.Settings, cases: list[collective.Case]) -> collective.Contender:
    made = collective.torch_over(sys.executable, "torch", settings, cases)
    return replace(
        made, program=replace(made.program, environment={**made.program.environment, "PYTHONPATH": str(STAND_INS)})
    )


def test_every_collective_of_nvshmem_gives_the_right_result_eager_and_captured() -> None:
    settings = settings_of(kinds=collective.NVSHMEM_KINDS)
    cases = collective.cases_of(settings)
    contender = nvshmem_of(settings, cases)
    assert collective._run(contender, settings) is None
    assert set(contender.lines) == set(contender.cases) == set(cases)
    assert all(line["wrong"] == 0 for line in contender.lines.values())
    assert contender.heading["library"] == "NVSHMEM 0.0.1"
    assert {case.type for case in cases} == {"float32", "float64", "int64"}


def test_what_nvshmem_cannot_capture_is_eager_and_says_so() -> None:
    settings = settings_of(kinds=("all_reduce",), sizes=(64,), submissions=("captured",), types=("uint8", "float32"))
    contender = nvshmem_of(settings, collective.cases_of(settings))
    assert collective._run(contender, settings) is None
    rows = [collective._row(contender, case) for case in contender.cases]
    assert {(row["type"], row["submission"]) for row in rows} == {("uint8", "eager"), ("float32", "captured")}
    assert all(row["wrong"] == 0 for row in rows)


def test_what_nvshmem_lacks_is_told_with_the_functions_name() -> None:
    settings = settings_of(kinds=("all_reduce",), sizes=(8,), submissions=("eager",), types=("bfloat16",))
    failure = collective._run(nvshmem_of(settings, collective.cases_of(settings)), settings)
    assert "has no function nvshmemx_bfloat16_sum_reduce_on_stream" in str(failure)


def test_pytorchs_symmetric_memory_is_checked_and_timed_the_faster_way() -> None:
    settings = settings_of(types=("float32", "bfloat16", "int64"))
    cases = collective.cases_of(settings)
    contender = torch_of(settings, cases)
    assert collective._run(contender, settings) is None
    rows = [collective._row(contender, case) for case in contender.cases if case in contender.lines]
    assert all(row["wrong"] == 0 for row in rows)
    assert {(row["kind"], row["type"]) for row in rows} == {
        ("all_reduce", "float32"), ("all_reduce", "bfloat16"), ("all_gather", "float32"), ("all_gather", "bfloat16"),
    }  # fmt: skip
    assert {row["how"] for row in rows if row["type"] == "bfloat16"} == {"two_shot", "low_contention"}
    assert {row["submission"] for row in rows if row["kind"] == "all_reduce"} == {"eager", "captured"}
    # An op that cannot be captured is eager, and its row says so; an operator's refusal is told with its first line.
    assert {row["submission"] for row in rows if row["kind"] == "all_gather"} == {"eager"}
    assert set(contender.refused.values()) == {"low_contention: all_gather: no such type"}


def test_peers_take_turns_in_one_run_and_are_told_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    makers = {"nvshmem": nvshmem_of, "torch": torch_of}
    monkeypatch.setattr(collective, "_peer", lambda name, settings, cases: makers[name](settings, cases))
    said: list[str] = []
    result = collective.measure(
        settings_of(vs=("nvshmem", "torch"), sizes=(1024,), types=("float32", "int64"), submissions=("captured",)),
        say=said.append,
    )
    assert [line.rpartition(": ")[2] for line in said if line.startswith("round")] == [
        "onstream", "nvshmem", "torch", "nvshmem", "torch", "onstream",
    ]  # fmt: skip
    assert {row["who"] for row in result["rows"]} == {"onstream", "nvshmem", "torch"}
    assert all(row["rounds"] == 2 for row in result["rows"])
    assert result["peers_missing"] == {}
    text = "\n".join(lines.lines_of_any(result))
    assert "PyTorch symmetric memory without all_gather 1032 B int64, captured: low_contention" in text
    assert "PyTorch symmetric memory" in report.page([result])


def test_a_peer_that_hangs_is_ended_at_the_limit_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def hanging(name: str, settings: collective.Settings, cases: list[collective.Case]) -> collective.Contender:
        start = (sys.executable, "-c", "import signal; signal.pause()")
        return collective.Contender(name, programs.Program(name, start), cases)

    monkeypatch.setattr(collective, "_peer", hanging)
    result = collective.measure(
        settings_of(ranks=1, vs=("torch",), sizes=(8,), submissions=("host",), rounds=1, samples=1, limit_s=1.5)
    )
    assert "ended early in round 1: torch did not finish within 1.5 s" in result["peers_missing"]["torch"]


def test_a_command_of_many_words_is_told_by_its_first_ones() -> None:
    assert programs.told(["/opt/here/bench", "a b"]) == "bench 'a b'"
    assert programs.told([str(n) for n in range(20)], most=3) == "0 1 2 and 17 words more"


def test_nvshmem_that_ends_while_it_captures_is_measured_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import sys, json\n"
        "for text in sys.argv[3:]:\n"
        "    if ':captured:' in text: raise SystemExit('cannot capture')\n"
        "    print(json.dumps({'case': text, 'bus_factor': 1, 'wrong': 0, 'how': '', 'samples_s': [1e-6] * 3}))\n"
    )

    def made(name: str, settings: collective.Settings, cases: list[collective.Case]) -> collective.Contender:
        contenders.append(collective.Contender(name, programs.Program(name, (sys.executable, "-c", script)), cases))
        return contenders[-1]

    contenders: list[collective.Contender] = []
    monkeypatch.setattr(collective, "_peer", made)
    said: list[str] = []
    settings = settings_of(
        ranks=1, vs=("nvshmem",), kinds=("all_reduce",), sizes=(8,), submissions=("eager", "captured")
    )
    result = collective.measure(settings, said.append)
    # Rounds that the first run measured before it ended do not count twice.
    assert {len(rounds) for rounds in contenders[0].rounds_s.values()} == {settings.rounds}
    assert {row["submission"] for row in result["rows"] if row["who"] == "nvshmem"} == {"eager"}
    assert any("once more with eager ones" in line and "cannot capture" in line for line in said)
    assert result["peers_missing"] == {}


def test_peers_between_gpus_are_named_with_the_reason_where_there_is_none() -> None:
    result = collective.measure(
        settings_of(ranks=1, vs=("nvshmem", "torch"), kinds=("barrier",), submissions=("host",), rounds=1, samples=1)
    )
    assert set(result["peers_missing"]) == {"nvshmem", "torch"}
    text = "\n".join(lines.lines_of_any(result))
    assert (
        "without PyTorch symmetric memory: PyTorch symmetric memory works between GPUs, and the device is host" in text
    )
    assert "without NVSHMEM: NVSHMEM works between GPUs" in text


def test_a_python_without_torch_is_named_with_its_last_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('half of it is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(mpi.PeerMissing, match=r"ImportError: half of it is missing.*pip install torch"):
        peers.find_torch()
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS))
    assert peers.find_torch() == sys.executable


def test_the_copy_engine_is_measured_where_it_makes_a_difference() -> None:
    def takes(kind: str, size: int, ranks: int, element: str = "float32") -> bool:
        return collective.by_engine(collective.Case(kind, element, "captured", size, 1, 1), ranks)

    mib = 1 << 20
    assert takes("all_to_all", 256 * mib, 4)
    assert not takes("all_to_all", 255 * mib, 4)
    assert takes("all_reduce", 512 * mib, 4)
    assert not takes("all_reduce", 256 * mib, 4)
    assert takes("all_reduce", 128 * mib, 2)
    assert not takes("all_reduce", 1024 * mib, 4, "uint8")
    assert takes("broadcast", 64 * mib, 2)
    assert not takes("broadcast", 1024 * mib, 4)
    assert not takes("reduce_scatter", 1024 * mib, 4)


def test_the_copy_engine_is_no_peer_in_verdicts() -> None:
    def row(who: str, median_s: float) -> dict[str, object]:
        case = collective.Case("all_gather", "float32", "captured", 1 << 30, 1, 1)
        return {"who": who, **asdict(case), "median_s": median_s, "bus_bytes_per_s": 1.0}

    result = {"device": "NVIDIA H200", "device_kind": "cuda", "ranks": 4}
    rows = [row("onstream", 2e-3), row("engine", 1e-3), row("nccl", 2.5e-3)]
    [verdict] = collective.judge({**result, "rows": rows})
    assert verdict["against"] == "nccl"
    assert verdict["holds"]


def test_an_algorithm_that_there_is_not_is_told_before_anything_runs() -> None:
    assert settings_of(algorithm="ring").algorithm == "ring"
    with pytest.raises(
        ons.InvalidArgumentError, match="there is no algorithm 'rings' for collectives; there are auto, ll,"
    ):
        settings_of(algorithm="rings")


def test_vs_knows_the_peers_of_the_collectives() -> None:
    assert collective.names_from("auto", "cuda")[:2] == ("nccl", "nvshmem")
    assert set(collective.names_from("auto", "cuda")) >= {"nccl", "nvshmem", "nccl-plain", "torch", "engine"}
    assert "torch" not in collective.names_from("auto", "host")
    assert collective.names_from("torch,nvshmem", "cuda") == ("nvshmem", "torch")
    assert collective.names_from("none", "cuda") == ()
    with pytest.raises(ons.InvalidArgumentError, match="lam"):
        collective.names_from("lam,torch", "cuda")


def test_the_fastest_way_of_torch_is_a_right_one_and_no_wrong_way_is_forgotten(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "torch.distributed", "torch.distributed._symmetric_memory"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    spec = importlib.util.spec_from_file_location(
        "torch_collectives", root / "bench" / "collective" / "torch_collectives.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wrong = {"fast": 3, "slow": 0, "slower": 0}
    times = {"fast": 1e-6, "slow": 2e-6, "slower": 3e-6}
    monkeypatch.setattr(module, "ways_of", lambda case, ranks: (None, {way: way for way in wrong}))
    monkeypatch.setattr(module, "wrong_of", lambda case, ranks, mine, run: wrong[run])
    monkeypatch.setattr(module, "samples_of", lambda case, ranks, run, samples: ([times[run]] * samples, "eager"))
    row = module.measure(MagicMock(), MagicMock(), 3)
    assert (row["how"], row["samples_s"], row["wrong"]) == ("slow", [2e-6] * 3, 3)
    wrong["fast"] = 0
    row = module.measure(MagicMock(), MagicMock(), 3)
    assert (row["how"], row["wrong"]) == ("fast", 0)
