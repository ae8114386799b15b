"""The set-up's messages: for each missing requirement the user reads its name and the remedy, on one screen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import build_folder

ROOT = Path(__file__).resolve().parents[2]


def setup(tmp_path: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs tools/setup.py for a venv in tmp_path, with an index that nobody serves."""
    base = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "ONSTREAM_", "CXX"))}
    base |= {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": os.devnull}
    command = [sys.executable, str(ROOT / "tools" / "setup.py"), "--venv", str(tmp_path / "venv"), *options]
    return subprocess.run(command, env=base | environment, capture_output=True, text=True, timeout=110)


def program(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return file


def test_no_compiler_is_told_with_what_to_install(tmp_path: Path) -> None:
    result = setup(tmp_path, PATH=str(tmp_path))
    assert result.returncode == 1
    assert "no C++ compiler" in result.stderr
    assert "apt install g++" in result.stderr


def test_a_compiler_without_cpp20_is_told_with_its_words(tmp_path: Path) -> None:
    old = program(tmp_path, "old", "#!/bin/sh\necho 'old 4.8: unrecognized option -std=c++20' >&2\nexit 1\n")
    result = setup(tmp_path, CXX=str(old))
    assert result.returncode == 1
    assert "C++20" in result.stderr
    assert "unrecognized option" in result.stderr


def python_that(folder: Path, change: str) -> list[str]:
    """The command of a Python in which `change` has run first."""
    starts = "import runpy, sys; sys.argv.pop(0); sys.path.insert(0, sys.argv[0].rpartition('/')[0]); "
    (folder / "changed.py").write_text(f"{starts}\n{change}\nrunpy.run_path(sys.argv[0], run_name='__main__')\n")
    script = [str(folder / "changed.py"), str(ROOT / "tools" / "setup.py")]
    return [sys.executable, *script, "--venv", str(folder / "venv"), "--cuda", "0"]


def setup_by(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "ONSTREAM_OFFLINE": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110)


def test_a_python_without_headers_is_told_with_what_to_install(tmp_path: Path) -> None:
    paths = f"import sysconfig; sysconfig.get_paths = lambda: {{'include': {str(tmp_path)!r}}}"
    result = setup_by(python_that(tmp_path, paths))
    assert result.returncode == 1
    assert f"headers of {sys.executable} are missing ({tmp_path}/Python.h)" in result.stderr
    assert "apt install python3-dev " in result.stderr
    assert "dnf install python3-devel" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_a_python_without_venv_is_told_with_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()  # half of one, from a run before
    # As on Debian without python3-venv, where ensurepip is missing.
    program(tmp_path, "python", f"#!/bin/sh\n[ \"$1 $2\" != '-m venv' ] || {{ echo 'ensurepip is not available'; exit 1; }}\n"
            f'exec "{sys.executable}" "$@"\n')  # fmt: skip
    result = setup_by(python_that(tmp_path, f"sys.executable = {str(tmp_path / 'python')!r}"))
    assert result.returncode == 1
    assert "cannot make a virtual environment" in result.stderr
    assert "apt install python3-venv" in result.stderr
    assert "ensurepip is not available" in result.stderr
    assert not (tmp_path / "venv").exists()


def made_before(venv: Path, said_to_be: Path) -> None:
    """A venv with the stamp that one made at `said_to_be` has, and a mark to know it by."""
    base = sys._base_executable  # type: ignore[attr-defined]
    subprocess.run([base, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=60)
    stamp = "import json, sys; sys.path.insert(0, sys.argv[1]); import setup; print(json.dumps(setup.stamp_of(setup.GROUPS, False, sys.argv[2])))"
    asked = [base, "-c", stamp, str(ROOT / "tools"), str(said_to_be)]
    said = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
    (venv / "onstream-setup.json").write_text(said.stdout)
    (venv / "mark").touch()


def test_an_activated_venv_is_not_made_anew_by_itself(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    made_before(venv, venv)
    own = [str(venv / "bin" / "python"), str(ROOT / "tools" / "setup.py"), "--venv", str(venv), "--cuda", "0"]
    environment = os.environ | {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "ONSTREAM_OFFLINE": ""}
    result = subprocess.run(own, env=environment, capture_output=True, text=True, timeout=110)
    assert result.returncode == 0, result.stderr
    assert (venv / "mark").exists(), "the venv whose Python ran this was thrown away"


def test_a_venv_that_was_moved_is_made_anew(tmp_path: Path) -> None:
    made_before(tmp_path / "venv", tmp_path / "elsewhere" / "venv")
    result = setup(tmp_path, "--cuda", "0", ONSTREAM_OFFLINE="1")
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "venv" / "mark").exists()


def test_a_cxx_that_is_no_program_is_told(tmp_path: Path) -> None:
    result = setup(tmp_path, CXX="no-such-compiler")
    assert result.returncode == 1
    assert "'no-such-compiler'" in result.stderr


def test_a_wrong_cuda_choice_is_told_with_the_choices(tmp_path: Path) -> None:
    result = setup(tmp_path, "--cuda", "yes")
    assert result.returncode == 1
    assert "0 (host only), 1" in result.stderr


@pytest.mark.parametrize("offline", ["0", "1"])
def test_without_an_index_the_packages_of_python_serve(tmp_path: Path, offline: str) -> None:
    result = setup(tmp_path, ONSTREAM_OFFLINE=offline)
    assert result.returncode == 0, result.stderr
    assert "Using the packages of" in result.stdout
    seen = [str(tmp_path / "venv" / "bin" / "python"), "-c", "import nanobind, numpy, pytest"]
    assert subprocess.run(seen, timeout=60).returncode == 0


def test_a_second_run_does_nothing(tmp_path: Path) -> None:
    assert setup(tmp_path, ONSTREAM_OFFLINE="1").returncode == 0
    again = setup(tmp_path, ONSTREAM_OFFLINE="1", PATH=str(tmp_path))
    assert again.returncode == 0, again.stderr
    assert again.stdout == ""


def test_without_an_index_and_packages_the_message_says_what_to_do(tmp_path: Path) -> None:
    # -S hides the packages of this Python, as on a fresh machine.
    shim = program(tmp_path, "python", f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    command = [str(shim), str(ROOT / "tools" / "setup.py"), "--venv", str(tmp_path / "venv")]
    environment = {"PATH": os.environ["PATH"], "ONSTREAM_OFFLINE": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110)
    assert result.returncode == 1
    assert "lacks nanobind, numpy, pytest" in result.stderr
    assert "Connect to a network with PyPI" in result.stderr


def test_formatters_are_not_promised_offline(tmp_path: Path) -> None:
    result = setup(tmp_path, "--check", ONSTREAM_OFFLINE="1")
    assert result.returncode == 1
    assert "make check" in result.stderr


def test_the_demo_builds_no_tests_and_no_benchmarks() -> None:
    dry = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert "tools/build.py" in dry.stdout
    assert "--package" in dry.stdout
    asked = "import sys; sys.path.insert(0, 'tools'); import build; print(build.tool('ninja'), *build.PACKAGE)"
    said = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)
    ninja, *targets = said.stdout.split()
    listed = [ninja, "-C", str(build_folder()), "-t", "commands", *targets]
    steps = subprocess.run(listed, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "python/src" in steps
    assert "tests/native" not in steps
    assert "CMakeFiles/bench_" not in steps


@pytest.mark.parametrize(
    ("answer", "architectures"),
    [("echo 8.0; echo 9.0; echo 8.0", "80;90"), ("echo no devices; exit 6", "90"), ("", "90")],
)
def test_cuda_is_compiled_for_the_gpus_that_are_here(tmp_path: Path, answer: str, architectures: str) -> None:
    program(tmp_path, "nvidia-smi", f"#!/bin/sh\n{answer}\n")
    script = tmp_path / "ask.cmake"
    script.write_text(
        f'include({ROOT}/cmake/architectures.cmake)\nonstream_architectures(found)\nmessage("{{${{found}}}}")'
    )
    cmake = Path(sys.executable).parent / "cmake"
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    command = [str(cmake) if cmake.exists() else "cmake", "-P", str(script)]
    told = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True)
    assert told.stderr.strip() == f"{{{architectures}}}"
