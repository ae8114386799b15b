"""NCCL's interface: the cases of tests/compat/nccl*.c on ranks that are threads, and processes; and the other
parts that programs rely on: names, headers, and the drop-in library.

Ranks are as many as there are GPUs at most, where there are some: two in one process would wait for each other.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from compat_programs import SOURCES, cases_of, is_current
from conftest import ROOT
from mpi_programs import call, has_gpu, libmp_folder, nvcc_of

pytestmark = pytest.mark.gpu

INCLUDE = ROOT / "compat" / "nccl" / "include"
LAUNCHER = [sys.executable, str(ROOT / "python" / "onstream" / "launcher")]
LIMIT_S = 90
COMPILE_LIMIT_S = 120
SETTINGS = {"ONSTREAM_TIMEOUT_S": "20"}

# One stream for all ranks of a process would let them wait for each other.
OF_PROCESSES_ONLY = {"the_default_stream_is_a_stream"}
# Special needs of these cases: settings, and how the ranks are started.
SPECIAL = {
    "a_late_rank_is_named_at_the_deadline": ("threads", {"ONSTREAM_TIMEOUT_S": "2"}),
    "a_late_split_is_told_as_what_failed_its_parent": ("threads", {"ONSTREAM_TIMEOUT_S": "2"}),
    "the_end_tells_that_the_last_collective_failed": ("processes", {"ONSTREAM_TIMEOUT_S": "2"}),
    "the_end_tells_that_the_last_message_was_cut": ("processes", {}),
    "a_dead_rank_is_named": ("processes", {}),
    "an_abort_ends_what_waits": ("processes", {}),
    "ranks_that_differ_are_named_in_the_checking_mode": ("threads", {"ONSTREAM_COLLECTIVE_CHECK": "on"}),
}

# Cases with splits that end at the deadline.
LATE = ["a_destroy_waits_for_a_split_to_its_deadline"]


@dataclass(frozen=True)
class Toolkit:
    """The options that compile and link programs of NCCL's interface: CUDA's, or its stand-in's."""

    folder: Path
    options: list[str]
    libraries: list[str]


def toolkit() -> Toolkit:
    folder = libmp_folder() / "compat"
    built = folder / "nccl"
    assert (built / "libonstream_nccl.so").exists(), (
        f"there is no libonstream_nccl.so in {built}; `make libmp` builds it"
    )
    if shutil.which("cc") is None:
        pytest.skip("NCCL programs are compiled with cc, and there is none")
    options = [f"-I{INCLUDE}", f"-L{built}", f"-Wl,-rpath,{built}", "-pthread"]
    nvcc = nvcc_of(libmp_folder())
    if nvcc is None:
        standin = folder / "standin"
        options += [f"-I{ROOT / 'compat' / 'standin'}", f"-L{standin}", f"-Wl,-rpath,{standin}"]
        return Toolkit(folder, options, ["-lonstream_standin", "-lonstream_nccl", "-lm"])
    root = Path(nvcc).resolve().parent.parent
    folders = [f"-L{folder}" for folder in (root / "lib64", root / "lib") if folder.exists()]
    libraries = ["-lonstream_nccl", *folders, "-lcudart_static", "-ldl", "-lrt", "-lm"]
    return Toolkit(folder, [*options, f"-I{root / 'include'}"], libraries)


def compiled(source: Path, *warnings: str) -> Path:
    """The program of one source, newer than its parts."""
    tools = toolkit()
    program = tools.folder / "nccl" / "tests" / source.stem
    program.parent.mkdir(parents=True, exist_ok=True)
    parts = [source, *SOURCES.glob("*.h"), *(ROOT / "compat").rglob("*.h")]
    if is_current(program, parts):
        return program
    command = ["cc", "-std=gnu11", "-O1", "-g", *warnings, *tools.options, str(source), "-o", str(program)]
    status, output = call([*command, *tools.libraries], COMPILE_LIMIT_S)
    assert status == 0, f"{' '.join(command)}\n{output}"
    return program


def program_of(source: str) -> Path:
    return compiled(SOURCES / source, "-Wall", "-Wextra", "-Werror")


def gpus() -> int | None:
    """As many ranks as may be threads of one process, if there is a limit."""
    if nvcc_of(libmp_folder()) is None or not has_gpu():
        return None
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    return len(listed.stdout.splitlines())


def skip_beyond_gpus(ranks: int) -> None:
    limit = gpus()
    if limit is not None and ranks > limit:
        pytest.skip(f"{ranks} ranks take as many GPUs, and there are {limit}")


def run_cases(source: str, mode: str, ranks: int, cases: list[str], folder: Path, settings: dict[str, str]) -> str:
    skip_beyond_gpus(ranks)
    program = str(program_of(source))
    command = [program, mode, str(ranks), *cases]
    if mode == "processes":
        command = [*LAUNCHER, "-n", str(ranks), program, mode, str(folder / "id"), *cases]
    status, output = call(command, LIMIT_S, {**SETTINGS, **settings})
    passed = set(re.findall(r"^(?:\[\d+\] )?passed (\w+)$", output, re.MULTILINE))
    missing = [case for case in cases if case not in passed]
    assert (status, missing) == (0, []), f"ended with status {status}; not passed: {missing}\n{output[-6000:]}"
    return output


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize(
    ("mode", "ranks"),
    [("threads", 1), ("threads", 2), ("threads", 5), ("processes", 1), ("processes", 2), ("processes", 4)],
)
def test_nccl(mode: str, ranks: int, tmp_path: Path) -> None:
    cases = [case for case in cases_of("nccl.c") if mode == "processes" or case not in OF_PROCESSES_ONLY]
    run_cases("nccl.c", mode, ranks, cases, tmp_path, {})


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_nccl_in_one_thread(ranks: int, tmp_path: Path) -> None:
    run_cases("nccl_alone.c", "alone", ranks, cases_of("nccl_alone.c"), tmp_path, {})


# Hosts wait for each other at every collective, or at the first, of one thread too.
@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize(
    "settings",
    [
        {"ONSTREAM_COLLECTIVE_CHECK": "on"},
        {"ONSTREAM_COLLECTIVE_ALGORITHM": "copy"},
        {"ONSTREAM_COLLECTIVE_ALGORITHM": "hierarchical", "ONSTREAM_COLLECTIVE_GROUP": "2"},
    ],
)
def test_nccl_in_one_thread_where_hosts_meet(settings: dict[str, str], tmp_path: Path) -> None:
    cases = [
        "one_thread_drives_all_ranks",
        "one_group_has_many_ops_of_all_ranks",
        "one_thread_gathers_from_all_ranks",
    ]
    run_cases("nccl_alone.c", "alone", 4, cases, tmp_path, settings)


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize(("mode", "ranks"), [("threads", 1), ("threads", 3), ("processes", 3)])
def test_nccl_splits_whose_parent_ends(mode: str, ranks: int, tmp_path: Path) -> None:
    cases = [case for case in cases_of("nccl_splits.c") if case not in LATE]
    run_cases("nccl_splits.c", mode, ranks, cases, tmp_path, {})


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("setting", ["ONSTREAM_COLLECTIVE_CHECK=on", "ONSTREAM_COLLECTIVE_ALGORITHM=copy"])
def test_nccl_groups_where_hosts_meet_keep_one_order(setting: str, tmp_path: Path) -> None:
    name, value = setting.split("=")
    settings = {name: value, "ONSTREAM_TIMEOUT_S": "20"}
    run_cases("nccl_splits.c", "processes", 2, ["a_group_over_communicators_of_one_stream_ends"], tmp_path, settings)


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("mode", ["threads", "processes"])
def test_nccl_splits_for_which_a_rank_does_not_come(mode: str, tmp_path: Path) -> None:
    run_cases("nccl_splits.c", mode, 2, LATE, tmp_path, {"ONSTREAM_TIMEOUT_S": "2"})


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("mode", ["threads", "processes"])
def test_nccl_misuse(mode: str, tmp_path: Path) -> None:
    cases = [case for case in cases_of("nccl_misuse.c") if case not in SPECIAL]
    run_cases("nccl_misuse.c", mode, 2, cases, tmp_path, {})


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("case", SPECIAL)
def test_nccl_with_ranks_that_are_late_gone_or_differ(case: str, tmp_path: Path) -> None:
    mode, settings = SPECIAL[case]
    run_cases("nccl_misuse.c", mode, 2, [case], tmp_path, settings)


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_the_hint_that_a_program_may_count_on_is_told_once(tmp_path: Path) -> None:
    output = run_cases("nccl_misuse.c", "threads", 2, ["hints_are_checked_and_accepted"], tmp_path, {})
    told = [line for line in output.splitlines() if re.match(r"onstream\[\d\] warn: ", line)]
    assert len(told) == 1, output
    assert "the option CTAPolicy is NCCL_CTA_POLICY_ZERO, which has no effect" in told[0]


# --- beside the calls ---


def declared() -> set[str]:
    text = (INCLUDE / "onstream_nccl" / "calls.h").read_text()
    named = set(re.findall(r"^ONSTREAM_NCCL_CALL\((\w+)", text, re.MULTILINE))
    named |= set(re.findall(r"^(?:const char\*|void) (nccl\w+)\(", text, re.MULTILINE))
    return named | {f"p{name}" for name in named}


def exported(library: Path) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    return set(re.findall(r" [TW] (p?nccl[A-Z]\w*)$", listed.stdout, re.MULTILINE))


@pytest.mark.parametrize("library", ["libonstream_nccl.so", "drop_in/libnccl.so.2"])
def test_all_that_is_declared_is_exported(library: str) -> None:
    found = exported(toolkit().folder / "nccl" / library)
    assert declared() <= found


def test_every_call_of_nvidias_library_is_there() -> None:
    """Otherwise a program that loads both would hand that one a communicator of this one."""
    nvcc = shutil.which("nvcc")
    folders = [] if nvcc is None else [Path(nvcc).resolve().parent.parent / name for name in ("lib", "lib64")]
    found = [folder / "libnccl.so.2" for folder in folders if (folder / "libnccl.so.2").exists()]
    if not found:
        pytest.skip("there is no libnccl.so.2 of NVIDIA beside nvcc")
    inner = {f"{p}nccl{name}" for p in ("", "p") for name in ("ResetDebugInitInternal", "LLA2ACalcSlots")}
    assert exported(found[0]) - inner - exported(toolkit().folder / "nccl" / "libonstream_nccl.so") == set()


def linked_for_nccl(source: str, nccl: Path, program: Path) -> Path:
    """A program linked as against NVIDIA's library, by its name, which is found in the folder `nccl` as it is linked."""
    tools = toolkit()
    ours = str(tools.folder / "nccl")
    options = [option for option in tools.options if ours not in option or option.startswith("-I")]
    libraries = [part.replace("-lonstream_nccl", "-lnccl") for part in tools.libraries]
    # The stand-in for CUDA uses symbols of our library.
    loose = ["-Wl,--unresolved-symbols=ignore-in-shared-libs", "-Wl,-z,lazy"]
    command = ["cc", "-std=gnu11", *options, f"-L{nccl}", str(SOURCES / source), "-o", str(program), *libraries, *loose]
    status, output = call(command, COMPILE_LIMIT_S)
    assert status == 0, output
    needed = subprocess.run(["readelf", "-d", str(program)], capture_output=True, text=True, check=True).stdout
    assert "[libnccl.so.2]" in needed
    return program


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_program_linked_for_nccl_runs_with_the_drop_in(ranks: int, tmp_path: Path) -> None:
    """Found by the library path alone."""
    skip_beyond_gpus(ranks)
    drop_in = toolkit().folder / "nccl" / "drop_in"
    program = linked_for_nccl("nccl_alone.c", drop_in, tmp_path / "program")
    case = "one_thread_drives_all_ranks"
    found = {"LD_LIBRARY_PATH": str(drop_in), **SETTINGS}
    status, output = call([str(program), "alone", str(ranks), case], LIMIT_S, found)
    assert status == 0, output
    assert f"passed {case}" in output


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_processes_linked_for_nccl_run_with_the_drop_in(tmp_path: Path) -> None:
    skip_beyond_gpus(2)
    drop_in = toolkit().folder / "nccl" / "drop_in"
    program = linked_for_nccl("nccl.c", drop_in, tmp_path / "program")
    case = "an_older_config_is_understood"
    command = [*LAUNCHER, "-n", "2", str(program), "processes", str(tmp_path / "id"), case]
    status, output = call(command, LIMIT_S, {"LD_LIBRARY_PATH": str(drop_in), **SETTINGS})
    assert status == 0, output
    assert output.count(f"passed {case}") == 2


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_a_program_that_finds_another_nccl_runs_with_the_library_preloaded(tmp_path: Path) -> None:
    """Beside the program lies a libnccl.so.2 whose every call fails."""
    ranks = 3
    skip_beyond_gpus(ranks)
    source, other = tmp_path / "other.c", tmp_path / "libnccl.so.2"
    texts = {f"{p}ncclGet{what}" for p in ("", "p") for what in ("LastError", "ErrorString")}
    calls = [f"int {name}(void) {{ return 3; }}\n" for name in sorted(declared() - texts)]
    calls += [f'const char* {name}(void) {{ return "another NCCL"; }}\n' for name in sorted(texts)]
    source.write_text("".join(calls))
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-w",
        "-fno-builtin",
        "-Wl,-soname,libnccl.so.2",
        str(source),
        "-o",
        str(other),
    ]
    status, output = call(command, COMPILE_LIMIT_S)
    assert status == 0, output
    (tmp_path / "libnccl.so").symlink_to(other.name)
    program = linked_for_nccl("nccl_alone.c", tmp_path, tmp_path / "program")
    case = "one_thread_drives_all_ranks"
    command = [str(program), "alone", str(ranks), case]
    found = {"LD_LIBRARY_PATH": str(tmp_path), **SETTINGS}
    status, output = call(command, LIMIT_S, found)
    assert status != 0, output
    assert "another NCCL" in output
    ours = toolkit().folder / "nccl" / "libonstream_nccl.so"
    status, output = call(command, LIMIT_S, {"LD_PRELOAD": str(ours), **found})
    assert status == 0, output
    assert f"passed {case}" in output


def test_the_headers_compile_as_c99_c11_and_cpp(tmp_path: Path) -> None:
    tools = toolkit()
    body = "ncclConfig_t c = NCCL_CONFIG_INITIALIZER; ncclSimInfo_t s = NCCL_SIM_INFO_INITIALIZER; return c.size + s.size == 0;"
    for language, standard in (("c", "c99"), ("c", "c11"), ("cpp", "c++14"), ("cpp", "c++20")):
        source = tmp_path / f"all.{language}"
        source.write_text(f"#include <nccl.h>\nint main(void) {{ {body} }}\n")
        compiler = "cc" if language == "c" else "c++"
        command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", *tools.options, str(source)]
        status, output = call([*command, "-o", str(tmp_path / "all"), *tools.libraries], COMPILE_LIMIT_S)
        assert status == 0, output


def test_the_layouts_are_those_of_the_abi(tmp_path: Path) -> None:
    """Sizes, places and values that programs compiled against NVIDIA's header have in them."""
    facts = {
        "sizeof(ncclUniqueId)": 128,
        "sizeof(ncclConfig_t)": 80,
        "offsetof(ncclConfig_t, netName)": 32,
        "offsetof(ncclConfig_t, commName)": 48,
        "offsetof(ncclConfig_t, nvlinkCentricSched)": 76,
        "sizeof(ncclSimInfo_t)": 24,
        "offsetof(ncclSimInfo_t, estimatedTime)": 16,
        "sizeof(ncclRedOp_t)": 4,
        "ncclMaxRedOp": 0x7FFFFFFF,
        "ncclNumOps": 5,
        "ncclNumTypes": 12,
        "ncclBfloat16": 9,
        "ncclInProgress": 7,
        "NCCL_VERSION(2, 27, 7)": 22707,
        "NCCL_VERSION_CODE": 22707,
    }
    lines = "\n".join(f'_Static_assert({what} == {value}, "{what}");' for what, value in facts.items())
    source = tmp_path / "facts.c"
    source.write_text(f"#include <nccl.h>\n{lines}\n")
    status, output = call(
        ["cc", *toolkit().options, "-c", str(source), "-o", str(tmp_path / "facts.o")], COMPILE_LIMIT_S
    )
    assert status == 0, output


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_the_cost_of_a_small_call_is_printed() -> None:
    status, output = call(
        [str(compiled(ROOT / "bench" / "compat" / "nccl_calls.c", "-Wall", "-Wextra", "-Werror"))], LIMIT_S, SETTINGS
    )
    assert status == 0, output
    assert len(re.findall(r": best \d+, median \d+ ns$", output, re.MULTILINE)) == 3
