"""UPC's calls: each case of tests/compat/upc.c is a row here, for 1 to 5 threads; and the calls that are refused."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from compat_programs import SOURCES, between_hosts, cases_of, failed_cases, is_current, is_repeated, refusals
from conftest import ROOT, build_folder
from mpi_programs import call

HEADERS = ROOT / "compat" / "upc" / "include"
LIMIT_S = 60
COMPILE_LIMIT_S = 120
# Small parts, so that they are filled and freed in no time; and chunks that many sizes are the edges of.
SETTINGS = {
    "ONSTREAM_TIMEOUT_S": "20",
    "ONSTREAM_UPC_HOST_BYTES": "8388608",
    "ONSTREAM_UPC_DEVICE_BYTES": "8388608",
    "ONSTREAM_STAGE_CHUNK_BYTES": "4096",
}

# The message of each misuse, and the status that the job ends with.
MISUSE = {
    "a_thread_out_of_range_is_refused": (1, "but there are threads 0 to 2"),
    "a_null_pointer_to_shared_is_refused": (1, "upc_memput: thread 0: dst is null"),
    "a_null_source_is_refused": (1, "the source of 8 B is a null pointer"),
    "an_end_past_the_piece_is_refused": (1, "200 B from there are not all allocated, or were freed"),
    "an_address_outside_the_space_is_refused": (1, "outside the shared space of 8388608 B of each thread"),
    "more_than_a_part_is_refused": (1, "are left of the thread's part, not 18446744073709551615"),
    "freed_memory_is_refused": (1, "8 B from there are not all allocated, or were freed"),
    "freeing_twice_is_refused": (1, "upc_free: thread 1: pointer {thread 0, address 0x1000, phase 0} is no piece"),
    "freeing_the_middle_of_a_piece_is_refused": (1, "is no piece that an allocation gave, or was freed before"),
    "freeing_what_nobody_allocated_is_refused": (1, "pointer {thread 1, address 0x1041, phase 0} is no piece"),
    "sizes_that_differ_are_refused": (
        1,
        "but thread 0 calls upc_all_alloc(4, 64) in host memory and thread 1 calls upc_all_alloc(4, 128)",
    ),
    "memory_that_differs_is_refused": (1, "calls upc_all_alloc(4, 64) in device memory"),
    "calls_that_differ_are_refused": (1, "but thread 0 calls upc_all_free of null and thread 1 is in a barrier"),
    "barriers_of_two_values_are_refused": (1, "thread 0 is in barrier 4 and thread 2 in barrier 5"),
    "a_wait_for_another_barrier_is_refused": (
        1,
        "this thread waits for barrier 2, but its upc_notify was for barrier 1",
    ),
    "a_wait_without_notify_is_refused": (1, "upc_wait: thread 0: this thread has not called upc_notify before"),
    "notifying_twice_is_refused": (1, "this thread has called upc_notify already, and not upc_wait"),
    "a_collective_call_after_notify_is_refused": (1, "upc_all_alloc: thread 0: this thread is between upc_notify and"),
    "an_end_between_notify_and_wait_is_refused": (1, "the program ends between upc_notify and upc_wait"),
    "an_end_while_others_are_in_a_barrier_is_refused": (1, "thread 0 has come to the end of main"),
    "bytes_that_overlap_are_refused": (1, "overlap in 20 B"),
    "a_block_that_is_too_large_is_refused": (1, "blocks of 8589934592 elements; the largest has 4294967295"),
    "a_phase_that_no_block_has_is_refused": (1, "in blocks of 4 elements there is no such phase"),
    "a_difference_of_two_arrays_is_refused": (1, "are not in one array of blocks of 4 elements of 4 B"),
    "a_difference_of_null_is_refused": (1, "are not in one array of blocks of 4 elements of 4 B"),
    "a_difference_of_host_and_device_memory_is_refused": (1, "are not in one array of blocks of 4 elements of 4 B"),
    "unlocking_what_nobody_has_is_refused": (1, "upc_unlock: thread 0: nobody has the lock 0x"),
    "unlocking_what_another_has_is_refused": (1, "upc_unlock: thread 0: thread 1 has the lock 0x"),
    "locking_twice_is_refused": (1, "upc_lock: thread 0: this thread has the lock 0x"),
    "a_freed_lock_is_refused": (1, "or were freed"),
    "a_null_lock_is_refused": (1, "upc_lock: thread 0: the lock is null"),
    "a_lock_that_nobody_made_is_refused": (1, "0x1234 is no lock that an allocation gave"),
    "a_lock_in_vain_names_who_has_it": (1, "which thread 2 has, within 2 s (timeout_s)"),
    "a_thread_that_does_not_come_is_named": (1, "is in a barrier, where thread 1 did not come within 2 s (timeout_s)"),
    "a_dead_thread_is_named": (137, "rank 1"),
    "a_thread_that_computes_ends_with_the_others": (1, "upc_memput: thread 0: dst is null"),
    "global_exit_ends_all": (7, "ended with code 7"),
    "global_exit_with_0_ends_all": (0, ""),
    "global_exit_ends_all_whatever_holds_a_stream": (0, ""),
    "a_thread_that_ends_badly_ends_all": (9, "rank 0 ended with status 9"),
    "calls_after_the_end_are_refused": (1, "MYTHREAD: this thread has come to its end"),
}

KEEPS = "global_exit_keeps_what_was_written"  # tested apart: it writes files


def folder() -> Path:
    place = build_folder() / "compat" / "upc"
    assert (place / "libonstream_upc.so").exists(), f"there is no libonstream_upc.so in {place}"
    return place


def command(source: Path, program: Path, *options: str, compiler: str = "cc") -> list[str]:
    """As docs/upc.md has it."""
    libraries = [f"-L{folder()}", f"-Wl,-rpath,{folder()}", "-lonstream_upc"]
    return [compiler, "-O1", "-g", *options, f"-I{HEADERS}", str(source), "-o", str(program), *libraries]


def compiled(name: str) -> Path:
    """A test program, newer than its parts."""
    if shutil.which("cc") is None:
        pytest.skip("UPC's calls are tested by programs that cc compiles, and there is none")
    source, program = SOURCES / f"{name}.c", folder() / "tests" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    parts = [source, SOURCES / "upc.h", HEADERS / "onstream_upc.h"]
    if is_current(program, parts):
        return program
    # Under another name first: two tests may compile at once.
    fresh = program.with_suffix(f".{os.getpid()}")
    words = command(source, fresh, "-std=gnu11", "-Wall", "-Wextra", "-Werror")
    status, output = call(words, COMPILE_LIMIT_S)
    assert status == 0, f"{' '.join(words)}\n{output}"
    fresh.replace(program)
    return program


def run(threads: int, program: Path, *arguments: str, settings: dict[str, str] | None = None) -> tuple[int, str]:
    start = [sys.executable, "-m", "onstream", "run", "-n", str(threads), str(program), *arguments]
    return call(start, LIMIT_S, {**SETTINGS, **(settings or {})})


def check_all(threads: int, settings: dict[str, str] | None = None) -> None:
    """All cases, in one job: a start takes longer than most of them."""
    status, output = run(threads, compiled("upc"), settings=settings)
    failed = failed_cases(cases_of("upc.c"), output)
    assert (status, failed) == (0, []), f"{failed[:1]} did not pass; status {status}\n{output[-6000:]}"


@pytest.mark.gpu
@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("threads", [1, 2, 3, 4, 5])
def test_every_call_does_what_it_must(threads: int) -> None:
    check_all(threads)


# The path of memory that a thread does not reach directly: the owner's proxy moves it, in chunks.
@pytest.mark.gpu
@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("threads", [2, 4])
def test_every_call_does_what_it_must_over_proxies(threads: int) -> None:
    check_all(threads, {"ONSTREAM_PATH": "stage"})


def test_threads_of_several_hosts_are_refused() -> None:
    status, output = run(4, compiled("upc"), settings=between_hosts(2))
    assert status == 1
    assert "UPC's threads need one host in this version, and thread 2 is on another than thread 0" in output


def test_every_misuse_has_its_row() -> None:
    assert set(cases_of("upc_misuse.c")) == {*MISUSE, KEEPS}


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("case", refusals(MISUSE))
def test_upc_misuse(case: str) -> None:
    wanted, says = MISUSE[case]
    waits = "in_vain" in case or "does_not_come" in case
    status, output = run(3, compiled("upc_misuse"), case, settings={"ONSTREAM_TIMEOUT_S": "2"} if waits else {})
    assert status == wanted, output[-6000:]
    assert says in output, output[-6000:]
    assert not is_repeated(says, output), output[-6000:]
    assert not waits or "to go on" not in output  # the job ends


@pytest.mark.gpu
@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_global_exit_keeps_what_was_written(tmp_path: Path) -> None:
    status, output = run(3, compiled("upc_misuse"), KEEPS, str(tmp_path))
    assert status == 7, output[-6000:]
    ends = [" and of its end", "", ""]  # the caller's handlers run
    assert [(tmp_path / str(i)).read_text() for i in range(3)] == [f"the results of {i}{ends[i]}" for i in range(3)]


def test_the_header_compiles_as_c99_c11_and_cpp(tmp_path: Path) -> None:
    text = (
        "#include <onstream_upc.h>\n"
        "int main(void) { upc_ptr_t p = UPC_NULL; upc_barrier(); upc_notify(1); upc_wait(1); return upc_ptr_is_null(p) - 1; }\n"
    )
    for language, standard in (("c", "c99"), ("c", "c11"), ("cpp", "c++11"), ("cpp", "c++20")):
        source, program = tmp_path / f"all.{language}", tmp_path / "all"
        source.write_text(text)
        compiler = "cc" if language == "c" else "c++"
        options = (f"-std={standard}", "-Wall", "-Wextra", "-Werror")
        status, output = call(command(source, program, *options, compiler=compiler), COMPILE_LIMIT_S)
        assert status == 0, output
    status, output = run(2, program)  # of C++
    assert status == 0, output


def test_a_part_that_is_too_small_is_told() -> None:
    status, output = run(2, compiled("upc"), settings={"ONSTREAM_UPC_HOST_BYTES": "12"})
    assert status == 1
    assert "ONSTREAM_UPC_HOST_BYTES is 12, but must be between 4096" in output
