"""The `onstream` command, as a user types it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from jobs import run_job
from onstream.demo import bathymetry

import onstream


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "onstream", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


def test_version_is_printed() -> None:
    assert command("--version").stdout == f"onstream {onstream.__version__}\n"


def test_help_lists_the_commands() -> None:
    text = command("--help").stdout
    for name in ("run", "demo", "bench", "rings", "info"):
        assert name in text


@pytest.mark.gpu
def test_info_as_json_has_everything() -> None:
    facts = json.loads(command("info", "--json", ONSTREAM_TAGS="32").stdout)
    assert facts["devices"][-1]["kind"] == "host"
    assert [row["device"] for row in facts["small_copies"]] == ["host", "cuda"]
    assert all(row["how"] and row["why"] for row in facts["small_copies"])
    assert {row["path"] for row in facts["paths"]} == {"ll", "store", "load", "copy", "stage", "memop", "net"}
    tags = next(row for row in facts["parameters"] if row["name"] == "tags")
    assert (tags["value"], tags["set_by"], tags["variable"]) == ("32", "environment", "ONSTREAM_TAGS")
    assert facts["launch"]["launcher"] == "none"
    gpus = sum(row["kind"] == "cuda" for row in facts["devices"])
    assert bool(facts["no_cuda_reason"]) == (gpus == 0)
    assert [len(row) for row in facts["peer_access"]] == [gpus] * gpus
    assert all(facts["peer_access"][gpu][gpu] for gpu in range(gpus))


@pytest.mark.gpu
def test_info_is_readable() -> None:
    ended = command("info", ONSTREAM_TAGS="32")
    assert ended.returncode == 0, ended.stderr
    for word in ("Devices", "Paths", "Transports", "Parameters that are set", "Launcher: none, rank 0 of 1"):
        assert word in ended.stdout
    lines = ended.stdout.splitlines()
    assert any(line.split()[:2] == ["tags", "32"] and "ONSTREAM_TAGS" in line for line in lines)
    assert any(
        re.match(r"1 of \d+ parameters are set; all of them: onstream info --parameters", line) for line in lines
    )
    assert not any("timeout_s" in line for line in lines)


def test_info_tells_every_parameter_in_one_line_each() -> None:
    lines = command("info", "--parameters").stdout.splitlines()
    for row in onstream.parameters():
        assert sum(line.split()[:1] == [row.name] for line in lines) == 1
        assert any(line.split()[:1] == [row.name] and line.rstrip().endswith(row.doc[-20:]) for line in lines), row.name
    assert repr(onstream.parameters()[0]).startswith(f"<ParameterRow: {onstream.parameters()[0].name}=")
    assert re.fullmatch(r"<DeviceRow: host, .+, .+>", repr(onstream.devices()[-1]))


def test_the_help_of_bathymetry_names_what_is_read() -> None:
    text = " ".join(command("demo", "--help", COLUMNS="400").stdout.split())
    for word in (*bathymetry._ELEVATION_KEYS, *bathymetry._LONGITUDE_KEYS, *bathymetry._LATITUDE_KEYS, "cell_m"):
        assert re.search(rf"\b{word}\b", text), word
    for metres in (bathymetry.CELL_M, bathymetry.PNG_RANGE_M):
        assert f"{metres:.0f} m" in text


@pytest.mark.gpu
def test_info_works_without_the_command_line_libraries() -> None:
    ended = subprocess.run([sys.executable, "-m", "onstream.info"], capture_output=True, text=True, timeout=60)
    assert json.loads(ended.stdout)["onstream"] == onstream.__version__


def test_a_missing_typer_says_what_to_install() -> None:
    program = "import sys; sys.modules['typer'] = None; import onstream.cli"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert "pip install typer rich" in ended.stderr


def test_the_library_needs_numpy_alone() -> None:
    blocked = "import sys; sys.modules |= dict.fromkeys(['typer', 'rich', 'matplotlib', 'ml_dtypes'])\n"
    program = (
        "import onstream, onstream.launcher, onstream.info\nprint(onstream.run_threads(2, lambda w: w.all_reduce(1)))"
    )
    environment = os.environ | {"ONSTREAM_DEVICE": "host"}
    ended = subprocess.run(
        [sys.executable, "-c", blocked + program], capture_output=True, text=True, timeout=60, env=environment
    )
    assert ended.stdout == "[2, 2]\n", ended.stderr


def test_a_missing_matplotlib_says_what_to_install_before_the_demo_computes(tmp_path: Path) -> None:
    program = f"import sys; sys.modules['matplotlib'] = None; from onstream.demo import run_demo; sys.exit(run_demo(out={str(tmp_path)!r}))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "pip install matplotlib" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_extras_and_pins_name_the_same_packages() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    lists = re.findall(r"^(?:optional-dependencies\.(\w+)|dependencies) = \[(.*?)\]", project, re.MULTILINE)
    named = {extra: set(re.findall(r'"([\w-]+)', packages)) for extra, packages in lists}
    pins = {kind: (ROOT / "tools" / f"requirements-{kind}.txt").read_text() for kind in ("run", "check", "build")}
    pinned = {kind: set(re.findall(r"^([\w-]+)==", text, re.MULTILINE)) for kind, text in pins.items()}
    assert named[""] == {"numpy"}
    assert named[""] | named["cli"] | named["bench"] | named["demo"] == pinned["run"]
    assert named["docs"] <= pinned["check"]
    assert named["net"] <= pinned["build"]


def test_a_misspelt_variable_is_an_error_and_not_a_traceback() -> None:
    ended = command("info", ONSTREAM_TAG="3")
    assert ended.returncode == 1
    assert ended.stderr.startswith("onstream: ")
    assert "ONSTREAM_TAG" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [("--grid", "9by9", "ROWSxCOLUMNS"), ("--source", "here", "LON,LAT"), ("--gauge", "1,2,3", "LON,LAT")],
)
def test_a_wrong_option_of_the_demo_is_explained(option: str, value: str, reason: str) -> None:
    ended = command("demo", option, value)
    assert ended.returncode == 2
    assert reason in ended.stderr


def test_run_gives_every_rank_its_number_and_prefix(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        3,
        """
        import sys
        import onstream as ons

        with ons.init(device="host") as world:
            total = 0
            for peer in range(world.size):
                world.send(bytes([world.rank]), peer)
            for peer in range(world.size):
                box = bytearray(1)
                world.recv(box, peer)
                total += box[0]
            print("rank", world.rank, "of", world.size, "got", total, sys.argv[1:])
        """,
    )
    assert outcome.code == 0, outcome.err
    for rank in range(3):
        assert f"rank {rank} of 3 got 3 []" in outcome.out


def test_ctrl_c_reaches_every_rank_in_its_wait(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import onstream as ons\n"
        "world = ons.init(device='host')\n"
        "world.barrier()\n"
        "print('waiting', flush=True)\n"
        "world.recv(bytearray(4), (world.rank + 1) % world.size)\n"
    )
    arguments = [sys.executable, "-m", "onstream", "run", "-n", "3", sys.executable, str(script)]
    each = {**os.environ, "ONSTREAM_TRACEBACK": "full"}  # the traceback of each rank, for equal ones are written once
    with subprocess.Popen(arguments, env=each, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        for _ in range(3):
            assert "waiting" in job.stdout.readline()
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=60)
    assert job.returncode == 128 + signal.SIGINT
    assert sum(line.endswith("] KeyboardInterrupt") for line in err.splitlines()) == 3, err
    assert "onstream error" not in err  # the log leaves it to the tracebacks


def test_run_returns_the_failing_ranks_code(tmp_path: Path) -> None:
    program = "import os, sys\nsys.exit(7 if os.environ['ONSTREAM_RANK'] == '1' else 0)\n"
    assert run_job(tmp_path, 2, program).code == 7


def test_run_ends_a_job_that_takes_too_long() -> None:
    ended = command("run", "-n", "2", "--timeout-s", "0.5", sys.executable, "-c", "import time; time.sleep(50)")
    assert ended.returncode == 124


def test_run_passes_options_on_to_the_program() -> None:
    ended = command(
        "run", "-n", "1", "--no-prefix", sys.executable, "-c", "import sys; print(sys.argv[1:])", "-n", "--json"
    )
    assert "['-n', '--json']" in ended.stdout


def test_run_of_a_missing_program_says_so() -> None:
    ended = command("run", "-n", "2", "/no/such/program")
    assert ended.returncode != 0
    assert "/no/such/program" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"schema": 1, "kind": "message"}', "not whole: as a result of kind 'message'"),
        ('{"schema": 1, "kind": "startup", "rows": 3}', "not whole: as a result of kind 'startup'"),
        ('{"schema": 1, "kind": "dance"}', "of kind 'dance'; there are message,"),
        ('{"schema": 1, "kind": []}', "of kind []; there are message,"),
        ('{"schema": 1}', "no result of `onstream bench`"),
        ("{", "cannot be read"),
    ],
)
def test_a_report_of_what_is_no_result_names_the_file(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(text)
    ended = command("bench", "report", str(file), "--html", str(tmp_path / "page.html"))
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"onstream: {file} ")
    assert reason in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize("place", ["/proc/nowhere/result", "."])
def test_a_result_that_cannot_be_written_is_told_before_anything_is_measured(option: str, place: str) -> None:
    ended = command("bench", "message", option, place)
    assert ended.returncode == 2
    assert option in ended.stderr
    assert "cannot be" in ended.stderr
    assert "round 1" not in ended.stderr


def test_no_rounds_are_no_measurement() -> None:
    for kind in ("paths", "aggregation", "message"):
        ended = command("bench", kind, "--rounds", "0")
        assert ended.returncode != 0
        assert "rounds" in ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--grid", "100000x100000"), "a grid of 100000 x 100000 cells takes about"),
        (("--grid", f"{10**30}x8"), "ask for fewer cells"),
        (("--steps", "9" * 20), "are too many"),
        (("--hours", "1e30"), "are too many"),
    ],
)
def test_a_demo_beyond_this_machine_is_refused_in_a_line(options: tuple[str, str], reason: str, tmp_path: Path) -> None:
    ended = command("demo", *options, "--out", str(tmp_path))
    assert ended.returncode == 2
    assert ended.stderr.startswith("onstream demo: ")
    assert reason in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_rings_of_a_machine_are_printed(tmp_path: Path) -> None:
    assert command("rings", "dgx1-v100").stdout.startswith("6 rings of 8 GPUs (at most 6)\n  ")
    file = tmp_path / "mine.txt"
    file.write_text("gpus 3\nlink 0 1\nlink 1 2\nlink 2 9\n")
    assert "line 4 of the machine, 'link 2 9'" in command("rings", str(file)).stderr
    assert "there are dgx1-p100" in command("rings", "nothing").stderr
