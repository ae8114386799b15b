"""OpenSHMEM: each case of tests/compat/ is a row here, for 1, 2 and 4 PEs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from compat_programs import SOURCES, between_hosts, cases_of, failed_cases, is_current, is_repeated, refusals
from conftest import ROOT, build_folder
from memories import DEVICES
from mpi_programs import call

LIMIT_S = 60
COMPILE_LIMIT_S = 120
SETTINGS = {"ONSTREAM_TIMEOUT_S": "20"}

# The message of each misuse, and the status that the job ends with.
MISUSE = {
    "a_pe_out_of_range_is_refused": (1, "shmem_long_p: PE 0: PE 3 does not exist; this context's team has PEs 0 to 2"),
    "a_length_that_no_memory_has_is_refused": (1, "elements of 8 B are more than any memory has"),
    "a_stride_that_no_memory_has_is_refused": (1, "apart are farther than any memory reaches"),
    "a_negative_pe_is_refused": (1, "shmem_long_atomic_fetch_add: PE 0: PE -1 does not exist"),
    "an_address_that_is_not_symmetric_is_refused": (1, "shmem_long_put: PE 0: put: 0x"),
    "an_end_past_the_heap_is_refused": (1, "is in no segment of this world"),
    "an_alignment_that_is_no_power_of_two_is_refused": (1, "an alignment is a power of two, not 3"),
    "a_misaligned_word_is_refused": (1, "is not aligned to its size"),
    "freeing_twice_is_refused": (1, "which is no piece of this heap, or was freed before"),
    "freeing_what_is_not_in_the_heap_is_refused": (1, "is not in the symmetric heap"),
    "sizes_that_differ_are_refused": (1, "rank 0 calls allocate(64, 64) and rank 1 calls allocate(128, 64)"),
    "zeroed_sizes_that_differ_are_refused": (
        1,
        "rank 0 calls allocate_zeroed(100, 64) and rank 1 calls allocate_zeroed(1099511627776, 64)",
    ),
    "a_destroyed_context_is_refused": (1, "the context was destroyed"),
    "an_invalid_context_is_refused": (1, "the context is SHMEM_CTX_INVALID"),
    "a_comparison_that_does_not_exist_is_refused": (1, "there is no comparison 17"),
    "an_active_set_without_this_pe_is_refused": (1, "PE 0 is not in the active set"),
    "clearing_a_lock_that_nobody_holds_is_refused": (1, "nobody holds the lock"),
    "clearing_a_lock_that_another_pe_holds_is_refused": (1, "shmem_clear_lock: PE 0: PE 1 holds the lock at 0x"),
    "clearing_a_tested_lock_that_another_pe_holds_is_refused": (1, "shmem_clear_lock: PE 0: PE 2 holds the lock at 0x"),
    "a_wait_in_vain_ends_at_the_deadline": (1, "passed its deadline of 2 s"),
    "a_lock_in_vain_names_its_holder_at_the_deadline": (1, ", which PE 2 holds, passed its deadline of 2 s"),
    "a_tested_lock_in_vain_names_its_holder_at_the_deadline": (1, ", which PE 1 holds, passed its deadline of 2 s"),
    "a_reduction_in_vain_ends_the_job_at_the_deadline": (1, "shmem_long_sum_reduce: PE "),
    "a_team_sync_in_vain_ends_the_job_at_the_deadline": (1, "rank 1 did not come within 2 s (timeout_s)"),
    "a_pe_that_computes_ends_with_the_others": (1, "this PE ends with the others"),
    "global_exit_ends_all": (7, "ended with code 7"),
    "global_exit_ends_all_whatever_holds_a_stream": (0, ""),
    "a_pe_that_ends_badly_ends_all": (9, "rank 0 ended with status 9 and without shmem_finalize"),
    "calls_after_the_end_are_refused": (1, "OpenSHMEM is not initialised"),
    "calls_before_the_start_are_refused": (1, "OpenSHMEM is not initialised: shmem_init was not called"),
    "an_end_without_finalize_is_one": (0, ""),
}

# Tested apart: one writes files, one needs a GPU.
KEEPS = "global_exit_keeps_what_was_written"
NARROW = "a_wait_for_2_bytes_on_a_gpu_is_refused"


def commands() -> Path:
    folder = build_folder() / "compat" / "shmem"
    assert (folder / "libonstream_shmem.so").exists(), f"there is no libonstream_shmem.so in {folder}"
    return folder


def compiled(source: Path, *options: str, name: str = "") -> Path:
    """The program of one source, newer than its parts."""
    if shutil.which("cc") is None:
        pytest.skip("OpenSHMEM programs are compiled with cc, and there is none")
    program = commands() / "tests" / (name or source.stem)
    program.parent.mkdir(parents=True, exist_ok=True)
    parts = [source, *SOURCES.glob("openshmem*.h"), *(ROOT / "compat" / "shmem").rglob("*.h")]
    if is_current(program, parts):
        return program
    compiler = "oshc++" if source.suffix == ".cpp" else "oshcc"
    command = [str(commands() / compiler), "-O1", "-g", str(source), *options, "-o", str(program)]
    status, output = call(command, COMPILE_LIMIT_S)
    assert status == 0, f"{' '.join(command)}\n{output}"
    return program


def run(
    pes: int, program: Path, *arguments: str, settings: dict[str, str] = SETTINGS, limit_s: int = LIMIT_S
) -> tuple[int, str]:
    command = [str(commands() / "oshrun"), "-n", str(pes), str(program), *arguments]
    return call(command, limit_s, {**SETTINGS, **settings})


WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror")


def check(pes: int, source: str, limit_s: int = LIMIT_S, case: str | None = None, **settings: str) -> None:
    """A case of a program, or in one job all that need no threads: a start takes longer than most of them."""
    program = compiled(SOURCES / source, *WARNINGS, "-pthread")
    status, output = run(pes, program, *([case] if case else []), settings=settings, limit_s=limit_s)
    cases = [case] if case else [one for one in cases_of(source) if not one.startswith("threads_")]
    failed = failed_cases(cases, output)
    assert (status, failed) == (0, []), f"{failed[:1]} did not pass; status {status}\n{output[-6000:]}"


def check_collectives(pes: int, limit_s: int, **settings: str) -> None:
    check(pes, "openshmem_collectives.c", limit_s, **settings)
    check(pes, "openshmem_collectives.c", case="threads_reduce_on_teams_of_their_own_at_once", **settings)


# On the host device the CPU reaches it there too.
ON_THE_HOST_DEVICE = {"ONSTREAM_SHMEM_HEAP": "device", "ONSTREAM_DEVICE": "host"}


@pytest.mark.gpu
@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("pes", [1, 2, 4])
def test_openshmem(pes: int) -> None:
    check(pes, "openshmem.c")


@pytest.mark.gpu
@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_the_program_of_the_page_prints_its_lines() -> None:
    program = compiled(ROOT / "examples" / "shmem_ring.c", *WARNINGS)
    status, output = call([str(commands() / "oshrun"), "-n", "4", "--no-prefix", str(program)], LIMIT_S, SETTINGS)
    assert status == 0, output
    lines = "".join(f"{line}\n" for line in sorted(output.splitlines()))
    assert "PE 3 of 4 has the 2 of its left neighbour" in lines
    assert f"--no-prefix ./ring\n{lines}```" in (ROOT / "docs" / "openshmem.md").read_text()


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_openshmem_with_the_heap_on_the_host_device() -> None:
    check(2, "openshmem.c", **ON_THE_HOST_DEVICE)


@pytest.mark.gpu
@pytest.mark.limit(3 * LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("pes", [1, 2, 4])
def test_openshmem_collectives(pes: int) -> None:
    check_collectives(pes, 2 * LIMIT_S)


# A team of some PEs has the library's collectives where the heap is on the device.
@pytest.mark.limit(3 * LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("pes", [1, 2, 4])
def test_openshmem_collectives_with_the_heap_on_the_host_device(pes: int) -> None:
    check_collectives(pes, 2 * LIMIT_S, **ON_THE_HOST_DEVICE)


@pytest.mark.limit(5 * LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("host_pes", [1, 2])
def test_openshmem_between_hosts(host_pes: int) -> None:
    settings = between_hosts(host_pes)
    check(4, "openshmem.c", **settings)
    check(4, "openshmem_device.c", **{**settings, **ON_THE_HOST_DEVICE})
    check_collectives(4, 2 * LIMIT_S, **settings)


# Others than the library takes by itself, which add in an order of their own.
@pytest.mark.gpu
@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("algorithm", ["ring", "tree", "halving_doubling", "hierarchical"])
def test_sums_keep_the_order_of_the_members_whatever_algorithm_is_asked_for(algorithm: str) -> None:
    case = "sums_that_cancel_are_in_the_order_of_the_members"
    settings = {"ONSTREAM_COLLECTIVE_ALGORITHM": algorithm, "ONSTREAM_COLLECTIVE_GROUP": "2"}
    check(4, "openshmem_collectives.c", case=case, **settings)


ON_A_GPU = {"ONSTREAM_SHMEM_HEAP": "device", "ONSTREAM_DEVICE": "cuda"}
needs_a_gpu = pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("pes", [1, 2, 4])
def test_one_sided_calls_with_the_heap_on_the_host_device(pes: int) -> None:
    check(pes, "openshmem_device.c", **ON_THE_HOST_DEVICE)


@pytest.mark.gpu
@needs_a_gpu
@pytest.mark.limit(2 * LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("pes", [1, 2])
def test_one_sided_calls_with_the_heap_on_a_gpu(pes: int) -> None:
    check(pes, "openshmem_device.c", 2 * LIMIT_S, **ON_A_GPU)


@pytest.mark.gpu
@needs_a_gpu
@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_a_wait_for_2_bytes_on_a_gpu_is_refused() -> None:
    status, output = run(2, compiled(SOURCES / "openshmem_misuse.c", *WARNINGS), NARROW, settings=ON_A_GPU)
    assert status == 1, output[-6000:]
    assert "shmem_short_wait_until: PE 0: the words of 2 B at 0x" in output, output[-6000:]
    assert "are on the device, where those of 4 and 8 B can be waited for" in output, output[-6000:]


@pytest.mark.gpu
@needs_a_gpu
@pytest.mark.limit(3 * LIMIT_S + COMPILE_LIMIT_S)
def test_openshmem_collectives_with_the_heap_on_a_gpu() -> None:
    check_collectives(2, 2 * LIMIT_S, **ON_A_GPU)


# The paths that a GPU's memory and other hosts take: proxies load and store, no PE does directly. One PE may be
# through with thousands of trips to a proxy long before the other, where cores are shared.
BY_PROXIES = {"ONSTREAM_PATH": "stage", "ONSTREAM_TIMEOUT_S": "100"}


@pytest.mark.gpu
@pytest.mark.limit(2 * LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("case", ["every_size_is_put_and_got", "every_atomic_is_atomic"])
def test_openshmem_over_proxies(case: str) -> None:
    check(2, "openshmem.c", 2 * LIMIT_S, case, **BY_PROXIES)


@pytest.mark.limit(2 * LIMIT_S + COMPILE_LIMIT_S)
def test_one_sided_calls_with_the_heap_on_the_host_device_over_proxies() -> None:
    check(2, "openshmem_device.c", 2 * LIMIT_S, **ON_THE_HOST_DEVICE, **BY_PROXIES)


@pytest.mark.gpu
@pytest.mark.limit(6 * LIMIT_S + COMPILE_LIMIT_S)
def test_openshmem_collectives_over_proxies() -> None:
    check_collectives(2, 5 * LIMIT_S, **BY_PROXIES)


def test_every_misuse_has_its_row() -> None:
    cases = {*cases_of("openshmem_misuse.c"), "calls_before_the_start_are_refused"}
    assert cases == {*MISUSE, KEEPS, NARROW}


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("case", refusals(MISUSE))
def test_openshmem_misuse(case: str) -> None:
    wanted, says = MISUSE[case]
    timeout = {"ONSTREAM_TIMEOUT_S": "2"} if "deadline" in case else {}
    status, output = run(3, compiled(SOURCES / "openshmem_misuse.c", *WARNINGS), case, settings=timeout)
    assert status == wanted, output[-6000:]
    assert says in output, output[-6000:]
    assert not is_repeated(says, output), output[-6000:]
    assert "to go on" not in output  # the job ends


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_global_exit_keeps_what_was_written(tmp_path: Path) -> None:
    status, output = run(3, compiled(SOURCES / "openshmem_misuse.c", *WARNINGS), KEEPS, str(tmp_path))
    assert status == 7, output[-6000:]
    ends = [" and of its end", "", ""]  # the caller's handlers run
    assert [(tmp_path / str(i)).read_text() for i in range(3)] == [f"the results of {i}{ends[i]}" for i in range(3)]


@pytest.mark.parametrize(
    ("size", "code", "says"),
    [
        ("1k", 0, "bytes of the symmetric heap, k, M, G or T may follow: 1024"),
        ("0.5M", 0, "may follow: 524288"),
        ("1048576", 0, "may follow: 1048576"),
        ("much", 1, "SHMEM_SYMMETRIC_SIZE is 'much', but must be a number of bytes"),
        ("-4", 1, "SHMEM_SYMMETRIC_SIZE is '-4'"),
        ("4x", 1, "SHMEM_SYMMETRIC_SIZE is '4x'"),
    ],
)
def test_the_standard_variables_are_honoured(size: str, code: int, says: str) -> None:
    settings = {"SHMEM_SYMMETRIC_SIZE": size, "SHMEM_INFO": "1", "SHMEM_VERSION": "1"}
    program = compiled(SOURCES / "openshmem.c", *WARNINGS)
    status, output = run(2, program, "contexts_order_their_own_puts", settings=settings)
    assert status == code, output
    assert says in output
    assert code != 0 or "OpenSHMEM 1.5" in output


TOO_MUCH = """
#include <shmem.h>
int main(void) {
  shmem_init();
  void* small = shmem_malloc(100);
  int given = shmem_malloc(4 << 20) != NULL;
  given += shmem_calloc(2, 1 << 20) != NULL;
  given += shmem_realloc(small, 8 << 20) != NULL;
  shmem_finalize();
  return given;
}
"""


def test_a_full_heap_says_how_much_it_has_and_which_variable_gives_more(tmp_path: Path) -> None:
    source = tmp_path / "large.c"
    source.write_text(TOO_MUCH)
    program = tmp_path / "large"
    status, output = call([str(commands() / "oshcc"), str(source), "-o", str(program)], COMPILE_LIMIT_S)
    assert status == 0, output
    status, output = run(2, program, settings={"SHMEM_SYMMETRIC_SIZE": "1M"})
    assert status == 0, output
    for name, asked in (("malloc", 4194304), ("calloc", 2097152), ("realloc", 8388608)):
        assert re.search(
            rf"shmem_{name}: heap: no room for {asked} B.* of 1048576 B are used, the largest free.*"
            r"; SHMEM_SYMMETRIC_SIZE gives the heap more bytes$",
            output,
            re.MULTILINE,
        ), output
    assert "grow" not in output


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ({"SMA_SYMMETRIC_SIZE": "1k"}, 0, "may follow: 1024"),
        ({"SMA_SYMMETRIC_SIZE": "1k", "SHMEM_SYMMETRIC_SIZE": "2k"}, 0, "may follow: 2048"),
        ({"SMA_SYMMETRIC_SIZE": "much", "SHMEM_SYMMETRIC_SIZE": "2k"}, 0, "may follow: 2048"),
        ({"SMA_SYMMETRIC_SIZE": "much"}, 1, "SMA_SYMMETRIC_SIZE is 'much', but must be a number of bytes"),
    ],
)
def test_the_older_variables_are_honoured_and_give_way(settings: dict[str, str], code: int, says: str) -> None:
    program = compiled(SOURCES / "openshmem.c", *WARNINGS)
    older = {"SMA_INFO": "1", "SMA_VERSION": "1", "SMA_DEBUG": "1"}
    status, output = run(2, program, "contexts_order_their_own_puts", settings={**older, **settings})
    assert status == code, output
    assert says in output
    assert code != 0 or "OpenSHMEM 1.5" in output


PEDANTIC = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


# <mpp/shmem.h> is the header's old name.
@pytest.mark.parametrize("header", ["shmem.h", "mpp/shmem.h"])
def test_the_headers_compile_as_c99_c11_and_cpp(header: str, tmp_path: Path) -> None:
    for language, standard in (("c", "c99"), ("c", "c11"), ("cpp", "c++11"), ("cpp", "c++20")):
        source = tmp_path / f"all.{language}"
        source.write_text(
            f"#include <{header}>\n"
            "int main(void) { shmem_ctx_t ctx = SHMEM_CTX_DEFAULT; return ctx == SHMEM_CTX_INVALID; }\n"
        )
        compiler = "oshcc" if language == "c" else "oshc++"
        command = [str(commands() / compiler), f"-std={standard}", *PEDANTIC, str(source)]
        status, output = call([*command, "-o", str(tmp_path / "all")], COMPILE_LIMIT_S)
        assert status == 0, output


COMPLEX = SOURCES / "openshmem_complex.cpp"


def needs(command: str) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"there is no {command}")


@pytest.mark.limit(3 * LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_complex_numbers_of_c_and_of_cpp_are_reduced(compiler: str, tmp_path: Path) -> None:
    needs(compiler)
    program = tmp_path / "complex"
    command = [str(commands() / "oshc++"), "-std=c++11", *PEDANTIC, str(COMPLEX), "-o", str(program)]
    status, output = call(command, COMPILE_LIMIT_S, {"OSHCXX": compiler})
    assert status == 0, output
    for pes in (1, 2, 4):
        status, output = run(pes, program)
        assert (status, failed_cases(cases_of(COMPLEX.name), output)) == (0, []), output[-6000:]


@pytest.mark.limit(COMPILE_LIMIT_S)
def test_nvcc_takes_complex_numbers_of_c_and_of_cpp(tmp_path: Path) -> None:
    needs("nvcc")
    include = commands() / "include"
    command = ["nvcc", "-std=c++17", f"-I{include}", "-x", "cu", "-c", str(COMPLEX), "-o", str(tmp_path / "complex.o")]
    status, output = call(command, COMPILE_LIMIT_S)
    assert status == 0, output


ONE_OF_TWO = """
#include <shmem.h>
#include <stdio.h>
%s
int main(void) {
  shmem_init();
  printf("PE %%d: %%d\\n", shmem_my_pe(), shmem_addr_accessible(&first, 0));
  shmem_finalize();
  return 0;
}
"""
VARIABLES = ["long first = 1; long second = 2;", "long second = 2; long first = 1; long third = 3;"]


# Pages of one size, but the variables lie elsewhere in them; `--build-id=none`: the files themselves are compared.
@pytest.mark.limit(2 * LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("option", ["-Wl,--build-id", "-Wl,--build-id=none"])
def test_globals_of_two_executables_are_private_and_a_warning_says_so(option: str, tmp_path: Path) -> None:
    for name, variables in zip("ab", VARIABLES, strict=True):
        source = tmp_path / f"{name}.c"
        source.write_text(ONE_OF_TWO % variables)
        command = [str(commands() / "oshcc"), option, str(source), "-o", str(tmp_path / name)]
        status, output = call(command, COMPILE_LIMIT_S)
        assert status == 0, output
    both = tmp_path / "both"
    both.write_text(f'#!/bin/sh\n[ "$ONSTREAM_RANK" = 0 ] && exec {tmp_path}/a\nexec {tmp_path}/b\n')
    both.chmod(0o755)
    for program, symmetric in ((both, 0), (tmp_path / "a", 1)):
        status, output = run(2, program)
        assert status == 0, output
        assert ("the PEs do not run the same program" in output) == (symmetric == 0), output
        for pe in range(2):
            assert f"PE {pe}: {symmetric}" in output, output


# Variables of all kinds: of a value, of none, on pages apart by an alignment, beside code that may be written, and a
# pointer that the loader writes once (RELRO). Every PE puts to the next one's.
SPREAD = """
#include <shmem.h>
#include <stdio.h>
#ifndef ALIGN
#define ALIGN 16
#endif
#ifndef EMPTY
#define EMPTY 1
#endif
static long first, *const volatile pointer = &first;
#ifndef NO_DATA
static char table[ALIGN] __attribute__((aligned(ALIGN))) = {1};
static long last __attribute__((aligned(ALIGN))) = 7;
#else
static char table[ALIGN];
static long last;
#endif
static char empty[EMPTY];
#ifdef CODE
extern void beside(void);
__asm__(".section .beside,\\"awx\\"\\n.globl beside\\nbeside: ret\\n.previous");
#else
static void beside(void) {}
#endif
int main(void) {
  shmem_init();
  beside();
  const int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes(), before = last;
  shmem_barrier_all();
  shmem_long_p(&first, 10 + me, next);
  shmem_long_p(&last, 20 + me, next);
  shmem_char_p(&table[sizeof table - 1], (char)(30 + me), next);
  shmem_char_p(&empty[sizeof empty - 1], (char)(40 + me), next);
  shmem_barrier_all();
  const int symmetric = shmem_addr_accessible(table, next) + shmem_addr_accessible(empty, next);
  printf("PE %d: %ld %d %ld %d %d, %d\\n", me, *pointer, before, last, table[sizeof table - 1], empty[sizeof empty - 1],
         symmetric);
  shmem_finalize();
  return 0;
}
"""
LAYOUTS = [
    "",
    "-pie -fPIE",
    "-no-pie",
    "-Wl,-z,now",
    "-Wl,-z,now -DALIGN=4096",
    "-Wl,-z,norelro",
    "-Wl,-z,separate-code -DALIGN=8192",
    "-Wl,-z,noseparate-code",
    "-DNO_DATA",
    "-DALIGN=65536",
    "-DALIGN=65536 -no-pie",
    "-DALIGN=2097152",
    "-DALIGN=2097152 -Wl,-z,max-page-size=2097152",
    "-DEMPTY=1073741824",
    "-DCODE",
    "-fuse-ld=gold",
    "-fuse-ld=gold -DALIGN=65536",
    "-fuse-ld=lld",
    "-fuse-ld=lld -DALIGN=4096",
    "-fuse-ld=lld -DALIGN=65536 -no-pie",
    "-fuse-ld=lld -Wl,-z,now -DALIGN=2097152",
    "-fuse-ld=lld -DNO_DATA",
]


# There is no static library, so no program of one file.
@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("options", LAYOUTS)
def test_globals_are_symmetric_wherever_the_linker_puts_them(options: str, tmp_path: Path) -> None:
    linker = re.search("-fuse-ld=([a-z]+)", options)
    if linker is not None:
        needs(f"ld.{linker[1]}")
    source, program = tmp_path / "spread.c", tmp_path / "spread"
    source.write_text(SPREAD)
    status, output = call(
        [str(commands() / "oshcc"), *options.split(), str(source), "-o", str(program)], COMPILE_LIMIT_S
    )
    assert status == 0, output
    status, output = run(2, program)
    assert status == 0, output
    before = 0 if "NO_DATA" in options else 7
    for pe, other in ((0, 1), (1, 0)):
        values = f"{10 + other} {before} {20 + other} {30 + other} {40 + other}"
        assert re.search(rf"PE {pe}: {values}, 2$", output, re.MULTILINE), output


PROFILED = """
#include <pshmem.h>
#include <stdio.h>
static int puts_made, reductions;
void shmem_long_put(long* to, const long* from, size_t count, int pe) {
  ++puts_made;
  pshmem_long_put(to, from, count, pe);
}
int shmem_long_sum_reduce(shmem_team_t team, long* to, const long* from, size_t count) {
  ++reductions;
  return pshmem_long_sum_reduce(team, to, from, count);
}
int main(void) {
  static long words[2], sum;
  shmem_init();
  const long value = shmem_my_pe() + 1;
  shmem_long_put(words, &value, 1, pshmem_my_pe());
  shmem_long_put(&words[1], &value, 1, 0);
  shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, words, 1);
  if (pshmem_my_pe() == 0) printf("%d puts, %d reductions, sum %ld\\n", puts_made, reductions, sum);
  pshmem_finalize();
  return 0;
}
"""


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_a_profiler_replaces_functions_and_calls_their_second_names(tmp_path: Path) -> None:
    for language, standard in (("c", "c11"), ("cpp", "c++11")):
        source = tmp_path / f"profiled.{language}"
        source.write_text(PROFILED)
        program = tmp_path / language
        compiler = commands() / ("oshcc" if language == "c" else "oshc++")
        command = [str(compiler), f"-std={standard}", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(program)]
        status, output = call(command, COMPILE_LIMIT_S)
        assert status == 0, output
        status, output = run(2, program)
        assert status == 0, output
        assert "2 puts, 1 reductions, sum 3" in output


def test_every_function_has_a_second_name() -> None:
    library = commands() / "libonstream_shmem.so"
    shown = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in shown.stdout.splitlines()}
    functions = {name for name in names if name.startswith("shmem_")}
    assert len(functions) > 1000
    assert {f"p{name}" for name in functions} <= names
    declared = (commands() / "include" / "pshmem.h").read_text()
    # A macro declares the functions of complex numbers; openshmem_complex.cpp calls them.
    of_complex = {name for name in functions if re.search(r"_complex[fd]_", name)}
    assert len(of_complex) == 8
    assert "ONSTREAM_SHMEM_COMPLEX_REDUCTIONS(pshmem)" in declared
    assert {f"p{name}" for name in functions - of_complex} == set(re.findall(r"\) (pshmem_\w+);", declared))


def test_a_type_without_a_call_is_an_error_of_the_compiler(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("#include <shmem.h>\nint main(void) { static float x; shmem_atomic_add(&x, 1.0f, 0); }\n")
    status, output = call([str(commands() / "oshcc"), str(source), "-o", str(tmp_path / "wrong")], COMPILE_LIMIT_S)
    assert status != 0
    assert "onstream_shmem_no_call" in output


def test_oshcc_shows_its_command() -> None:
    shown = subprocess.run([commands() / "oshcc", "-show", "-c", "a.c"], capture_output=True, text=True, check=True)
    assert shown.stdout.split()[0] == "cc"
    assert shown.stdout.split()[-2:] == ["-c", "a.c"]


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_the_cost_of_small_calls_is_printed() -> None:
    program = compiled(ROOT / "bench" / "compat" / "openshmem_latency.c", "-std=gnu11", "-Wall", "-Wextra", "-Werror")
    status, output = run(2, program)
    assert status == 0, output
    assert len(re.findall(r": best \d+, median \d+ ns$", output, re.MULTILINE)) == 8
