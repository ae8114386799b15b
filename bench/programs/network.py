"""Messages and sums, with numpy arrays: a ping-pong, large messages in a row, and all_reduce.

Usage: network.py onstream|mpi ROUNDS BYTES..., by `onstream run` or mpirun. The first rank and the last exchange messages,
which lie on different hosts where the job has several; sums are of all ranks. A sum of at most 8 B is one number.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from ghosts import time_steps

IN_A_ROW = 8


class Onstream:
    def __init__(self) -> None:
        import onstream as ons

        self.world = world = ons.init(device="host")
        self.rank, self.size = world.rank, world.size
        self.barrier, self.send, self.recv, self.wait_all = world.barrier, world.send, world.recv, world.wait_all
        self.isend, self.irecv, self.all_reduce, self.close = world.isend, world.irecv, world.all_reduce, world.close


class Mpi:
    def __init__(self) -> None:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        self.rank, self.size = comm.rank, comm.size
        self.barrier, self.send, self.recv, self.wait_all = comm.Barrier, comm.Send, comm.Recv, MPI.Request.Waitall
        self.isend, self.irecv = comm.Isend, comm.Irecv
        self.all_reduce = lambda array: comm.Allreduce(MPI.IN_PLACE, array)

    def close(self) -> None:
        pass


def time_us(library: Any, step: Callable[[], Any], rounds: int) -> float:
    for _ in range(2):
        step()
    return time_steps(library, step, rounds)


def pattern(nbytes: int) -> np.ndarray:
    return (np.arange(nbytes) % 251).astype(np.uint8)


def ping_pong(library: Any, nbytes: int) -> Callable[[], None]:
    array, last = pattern(nbytes), library.size - 1

    def step() -> None:
        if library.rank == 0:
            library.send(array, last)
            library.recv(array, last)
        elif library.rank == last:
            library.recv(array, 0)
            library.send(array, 0)

    return step


def in_a_row(library: Any, nbytes: int) -> Callable[[], None]:
    arrays, last = [pattern(nbytes) for _ in range(IN_A_ROW)], library.size - 1
    end = np.zeros(1, np.uint8)

    def step() -> None:
        if library.rank == 0:
            library.wait_all([library.isend(array, last) for array in arrays])
            library.recv(end, last)
        elif library.rank == last:
            library.wait_all([library.irecv(array, 0) for array in arrays])
            library.send(end, 0)

    return step


def sums(library: Any, nbytes: int) -> Callable[[], None]:
    array = np.zeros(max(1, nbytes // 8))
    return lambda: library.all_reduce(array)


def told(program: str, nbytes: int, figure: str, microseconds: float) -> None:
    print(json.dumps({"program": program, "case": "blocking", "bytes": nbytes, figure: microseconds}), flush=True)


def main() -> None:
    name, rounds, *sizes = sys.argv[1:]
    library = {"onstream": Onstream, "mpi": Mpi}[name]()
    for nbytes in map(int, sizes):
        few = max(2, min(int(rounds), int(rounds) * 65536 // max(nbytes, 1)))
        one_way = time_us(library, ping_pong(library, nbytes), few) / 2
        in_row = time_us(library, in_a_row(library, nbytes), max(2, few // IN_A_ROW)) / IN_A_ROW
        total = time_us(library, sums(library, nbytes), few)
        if library.rank == 0:
            told("ping_pong", nbytes, "one_way_us", one_way)
            told("in_a_row", nbytes, "pipelined_us", in_row)
            told("all_reduce", nbytes, "call_us", total)
    library.close()


main()
