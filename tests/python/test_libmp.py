"""libmp's interface: each case of tests/compat/ is a row here; and libmp's own public programs, where they are given.

`pytest tests/python/test_libmp.py --libmp=PATH` compiles and runs those of a checkout of github.com/gpudirect/libmp, as
they are. Where the build has no CUDA that is the ones without kernels, over the stand-in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from compat_programs import SOURCES, cases_of, is_current
from conftest import ROOT
from mpi_programs import Mpi, Toolkit, call, libmp_folder, mpi_of, toolkit

pytestmark = pytest.mark.gpu  # with CUDA every program of this interface starts by asking for GPUs

LIMIT_S = 90
COMPILE_LIMIT_S = 300
RANKS = {"windows_of_any_memory_are_put_to_and_got_from": 3, "many_ranks_exchange_over_another_communicator": 4}
SETTINGS = {"ONSTREAM_TIMEOUT_S": "30"}
# One MPI runs every case; the other those that depend on it: starting, and a communicator of the program's own.
OTHER_MPI = {"many_ranks_exchange_over_another_communicator", "a_stream_sends_and_waits_and_the_host_collects"}
# The text of a case on standard error.
TOLD = {
    "bad_puts_gets_and_vectors_fail": (
        "mp_isendv: the vector of 2 blocks is a null pointer",
        "mp_sendv_prepare: -1 blocks; there may be 1 to 30",
    ),
    "null_requests_words_and_queues_are_refused": ("mp_wait32: the word is a null pointer",),
}


def rows() -> list[object]:
    found = []
    for source in ("libmp.c", "libmp_misuse.c", "libmp_refusals.c", "libmp_descriptors.cpp", "libmp_kernels.cu"):
        for case in cases_of(source):
            for name in ("mpich", *(["openmpi"] if case in OTHER_MPI else [])):
                found.append(pytest.param(name, source, case, id=f"{name}-{case}"))
    return found


def with_nvcc(mpi: Mpi, tools: Toolkit) -> tuple[list[str], list[str]]:
    """The compiler of programs with kernels, and the toolkit's options as that takes them."""
    if tools.nvcc is None:
        pytest.skip("it launches kernels, and this build has no CUDA")
    options = [f"-Xlinker={option[4:]}" if option.startswith("-Wl,") else option for option in tools.options]
    return [tools.nvcc, "-ccbin", mpi.compiler("c++"), "-arch=native"], options


def compiled(mpi: Mpi, tools: Toolkit, source: Path, *more: str) -> Path:
    """The program of one source, newer than its parts."""
    program = libmp_folder() / "tests" / "compat" / mpi.name / source.stem
    program.parent.mkdir(parents=True, exist_ok=True)
    parts = [source, *SOURCES.glob("*.h"), *(ROOT / "compat").rglob("*.h")]
    if is_current(program, parts):
        return program
    if source.suffix == ".cu":
        compiler, options = with_nvcc(mpi, tools)
        more = tuple(f"-Xcompiler={option}" for option in more)
    else:
        compiler, options = [mpi.compiler("c++" if source.suffix == ".cpp" else "c")], tools.options
    command = [*compiler, "-O1", "-g", *more, *options, str(source), "-o", str(program), *tools.libraries]
    status, output = call(command, COMPILE_LIMIT_S)
    assert status == 0, f"{' '.join(command)}\n{output}"
    return program


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize(("mpi_name", "source", "case"), rows())
def test_libmp(mpi_name: str, source: str, case: str) -> None:
    mpi = mpi_of(mpi_name)
    program = compiled(mpi, toolkit(mpi), SOURCES / source, "-Wall", "-Werror")
    status, output = call([*mpi.start(RANKS.get(case, 2)), str(program), case], LIMIT_S, SETTINGS)
    assert status == 0, f"ended with status {status}\n{output[-6000:]}"
    assert f"passed {case}" in output
    for text in TOLD.get(case, ()):
        assert text in output, output[-6000:]


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_the_compiler_command_of_the_page_works(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "libmp.md").read_text()
    with_cuda, without = re.findall(r"^mpicc (.*)$", page, re.MULTILINE)
    mpi = mpi_of("mpich")
    nvcc = toolkit(mpi).nvcc
    words = (without if nvcc is None else with_cuda).replace("prog.c", str(SOURCES / "libmp.c")).split()
    places = {"$PWD/": "", "build/compat": f"{libmp_folder()}/compat", "-Icompat": f"-I{ROOT}/compat"}
    if nvcc is not None:
        places["$CUDA"] = str(Path(nvcc).resolve().parent.parent)
    for name, place in places.items():
        words = [word.replace(name, place) for word in words]
    program = tmp_path / "a.out"
    command = [mpi.compiler("c"), *words, "-o", str(program), f"-Wl,-rpath,{mpi.prefix / 'lib'}"]
    status, output = call(command, COMPILE_LIMIT_S)
    assert status == 0, f"{' '.join(command)}\n{output}"
    case = "the_default_stream_is_a_stream"
    status, output = call([*mpi.start(2), str(program), case], LIMIT_S, SETTINGS)
    assert status == 0, output
    assert f"passed {case}" in output


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_the_gain_of_posting_together_is_printed() -> None:
    mpi = mpi_of("mpich")
    program = compiled(mpi, toolkit(mpi), ROOT / "bench" / "compat" / "libmp_post.c", "-Wall", "-Werror")
    status, output = call([*mpi.start(2), str(program)], LIMIT_S, SETTINGS)
    assert status == 0, f"ended with status {status}\n{output[-6000:]}"
    ways = re.findall(r"^64 (.+): best \d+, median \d+ ns an op$", output, re.MULTILINE)
    assert ways == ["sends one by one", "sends together", "puts one by one", "puts together"]


# --- libmp's own programs ---


@dataclass(frozen=True)
class Public:
    """A program of libmp's repository: its sources, and its output when all is well."""

    sources: tuple[str, ...]
    says: str
    ranks: int = 2
    settings: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ("-O2",)
    arguments: tuple[str, ...] = ()
    refused_by: dict[str, str] = field(default_factory=dict)  # MPIs that end it, and why

    @property
    def name(self) -> str:
        words = [Path(self.sources[-1]).stem, *(f"{key}={value}" for key, value in self.settings.items())]
        return "-".join([*words, *self.arguments, *([f"{self.ranks}-ranks"] if self.ranks != 2 else [])])


# Its functions end without a return, which an optimising C++ compiler may take for a promise that they never end; g++
# from 13 on does not, but has the program trap there (NO_TRAPS, which older ones do not know).
PLAIN_CPP = ("-O0", "-Icomm_library")
NO_TRAPS = "-fno-unreachable-traps"
COMM = ("comm_library/comm.cpp", "comm_library/examples/comm_pingpong.cpp")
# CUDA 13 has neither the old NVTX header's place nor cudaDeviceProp::clockRate, which only sizes a kernel's loop.
CUDA_13 = ("-O2", "-DclockRate=maxThreadsPerMultiProcessor")
# They choose their GPU by the local rank that MVAPICH2 gives each process; without it, they choose none in particular.
TOLD_LOCAL_RANK = (
    'export MV2_COMM_WORLD_LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:?no local rank}}; exec "$0" "$@"'
)


def comm(ranks: int, **settings: str) -> Public:
    return Public(COMM, "Total RTT", ranks, {"COMM_USE_COMM": "1", **settings}, PLAIN_CPP)


PROGRAMS = [
    Public(("examples/mp_sendrecv.c",), "message size: 65536"),
    Public(("examples/mp_sendrecv_stream.c",), "message size: 65536"),
    Public(("examples/mp_putget.c",), "message size:65536      validation passed"),
    Public(("examples/mp_putget.c",), "message size:65536      validation passed", 2, {"USE_GPU_COMM_BUFFERS": "1"}),
    comm(2),
    comm(4),
    comm(2, COMM_USE_ASYNC_SA="1"),
    comm(4, COMM_USE_ASYNC_SA="1", USE_GPU_BUFFERS="1"),
    Public(("examples/mp_sendrecv_kernel.cu",), "message size: 65536"),
    Public(("benchmarks/mp_pingpong_kernel.cu",), "", 2, {"ENABLE_VALIDATION": "1"}, CUDA_13),
    Public(("benchmarks/mp_pingpong_kernel_stream.cu",), "", 2, {"ENABLE_VALIDATION": "1"}, CUDA_13),
    Public(("benchmarks/mp_pingpong_kernel_stream.cu",), "", 2, {}, CUDA_13, ("-W", "1")),
    Public(("benchmarks/mp_pingpong_kernel_stream_latency.cu",), "", 2, {}, CUDA_13),
    Public(("benchmarks/mp_pingpong_kernel_stream_wait_send.cu",), "", 2, {}, CUDA_13),
    Public(("benchmarks/mp_producer_consumer_kernel_stream.cu",), "", 2, {}, CUDA_13),
    Public(("benchmarks/mp_sendrecv_kernel_stream.cu",), "", 2, {}, CUDA_13),
    Public(("benchmarks/mp_pingpong_all.cu",), "", 2, {"ENABLE_VALIDATION": "1", "MAX_SIZE": "8192"}, CUDA_13),
    # These two time MPI too. They give it pinned memory (USE_GPU_BUFFERS=0, the default), so it need not know GPUs; messages
    # of up to 2 KiB both MPIs carry through memory of their own, not by cross-memory attach.
    Public(
        ("benchmarks/mp_pingpong_kernel_stream_mpi.cu",),
        "passed validation with message size: 2048",
        2,
        {"ENABLE_VALIDATION": "1", "MAX_SIZE": "2048"},
        CUDA_13,
        refused_by={"mpich": "the program gives MPI_Wait a null status, which MPICH takes for an error"},
    ),
    Public(("benchmarks/mp_pingpong_kernel_stream_latency_mpi.cu",), "", 2, {"SIZE": "2048"}, CUDA_13),
]


def compiled_public(mpi: Mpi, tools: Toolkit, checkout: Path, public: Public) -> Path:
    program = libmp_folder() / "tests" / "compat" / mpi.name / Path(public.sources[-1]).stem
    program.parent.mkdir(parents=True, exist_ok=True)
    options = [f"-I{checkout / option[2:]}" if option.startswith("-I") else option for option in public.options]
    sources = [str(checkout / source) for source in public.sources]
    if sources[-1].endswith(".cu"):
        compiler, passed = with_nvcc(mpi, tools)
        nvtx = Path(str(tools.nvcc)).resolve().parent.parent / "include" / "nvtx3"
        command = [*compiler, "-w", *options, *passed, f"-I{nvtx}", *sources, "-o", str(program), *tools.libraries]
    else:
        is_cpp = sources[-1].endswith(".cpp")
        compiler = [mpi.compiler("c++" if is_cpp else "c"), "-w"]
        if is_cpp and call([*compiler, NO_TRAPS, "-E", "-x", "c++", "/dev/null"], LIMIT_S)[0] == 0:
            options.append(NO_TRAPS)
        command = [*compiler, *options, *tools.options, *sources, "-o", str(program), *tools.libraries]
    status, output = call(command, COMPILE_LIMIT_S)
    assert status == 0, f"{' '.join(command)}\n{output}"
    return program


@pytest.mark.limit(3 * LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("public", [pytest.param(public, id=public.name) for public in PROGRAMS])
@pytest.mark.parametrize("mpi_name", ["mpich", "openmpi"])
def test_public_programs_run_unmodified(mpi_name: str, public: Public, request: pytest.FixtureRequest) -> None:
    checkout = request.config.getoption("--libmp")
    if checkout is None:
        pytest.skip("no checkout of github.com/gpudirect/libmp was given (--libmp=PATH)")
    if mpi_name in public.refused_by:
        pytest.skip(public.refused_by[mpi_name])
    mpi = mpi_of(mpi_name)
    program = compiled_public(mpi, toolkit(mpi), Path(checkout).resolve(), public)
    command = [*mpi.start(public.ranks), "sh", "-c", TOLD_LOCAL_RANK, str(program), *public.arguments]
    status, output = call(command, 3 * LIMIT_S, {**public.settings, **SETTINGS})
    assert status == 0, f"ended with status {status}\n{output[-6000:]}"
    assert public.says in output
    assert "fail" not in output.lower(), output[-6000:]
