"""How a 2-D block with ghost cells is exchanged and numbers are summed: in onstream's calls, and in mpi4py's.

Each exchange is written as a program of its library would have it: onstream's plans and MPI's datatypes take columns as
they lie, onstream's messages and neighbourhoods take them from a buffer that the program packs.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Exchange = Callable[[], Any]
# A block's faces in the order of MPI's neighbours of a grid: the cells that go out, and the ghost cells that come in.
OUT = (np.s_[1, 1:-1], np.s_[-2, 1:-1], np.s_[1:-1, 1], np.s_[1:-1, -2])
IN = (np.s_[0, 1:-1], np.s_[-1, 1:-1], np.s_[1:-1, 0], np.s_[1:-1, -1])
OPPOSITE = (1, 0, 3, 2)


def grid_of(size: int) -> tuple[int, int]:
    rows = next(n for n in range(int(size**0.5), 0, -1) if size % n == 0)
    return size // rows, rows


def faces_with(peers: list[int]) -> list[tuple[int, int]]:
    """The faces that have a neighbour, and its rank."""
    return [(face, peer) for face, peer in enumerate(peers) if peer >= 0]


class Onstream:
    ways = ("halo", "plan", "messages", "neighbourhood")

    def __init__(self) -> None:
        import onstream as ons

        self.world = ons.init(device="host")
        self.rank, self.size = self.world.rank, self.world.size
        self.grid = grid_of(self.size)
        self.hood = self.world.neighbourhood(grid=self.grid)
        self.peers = self.hood.destinations
        self.faces = faces_with(self.peers)
        self.barrier = self.world.barrier
        self._sum = np.zeros(1)

    def sum(self, number: float) -> float:
        self._sum[0] = number
        self.world.all_reduce(self._sum)
        return float(self._sum[0])

    def exchange(self, way: str, block: np.ndarray) -> Exchange:
        return getattr(self, f"_{way}")(block)

    def _halo(self, block: np.ndarray) -> Exchange:
        return self.world.halo(block, grid=self.grid).launch

    def _plan(self, block: np.ndarray) -> Exchange:
        builder = self.world.plan()
        for face, peer in self.faces:
            builder.send(block[OUT[face]], peer, tag=face).recv(block[IN[face]], peer, tag=OPPOSITE[face])
        return builder.build().launch

    def _messages(self, block: np.ndarray) -> Exchange:
        world = self.world
        out = [(np.empty(block[OUT[face]].size), block[OUT[face]], peer, face) for face, peer in self.faces]
        into = [(np.empty(block[IN[face]].size), block[IN[face]], peer, OPPOSITE[face]) for face, peer in self.faces]

        def exchange() -> None:
            requests = [world.irecv(buffer, peer, tag=tag) for buffer, _, peer, tag in into]
            for buffer, cells, peer, tag in out:
                np.copyto(buffer, cells)
                requests.append(world.isend(buffer, peer, tag=tag))
            world.wait_all(requests)
            for buffer, cells, _, _ in into:
                np.copyto(cells, buffer)

        return exchange

    def _neighbourhood(self, block: np.ndarray) -> Exchange:
        counts = [block[OUT[face]].size if peer >= 0 else 0 for face, peer in enumerate(self.peers)]
        sent, received = np.empty(sum(counts)), np.empty(sum(counts))
        ends = np.cumsum(counts)
        cuts = [(face, np.s_[ends[face] - count : ends[face]]) for face, count in enumerate(counts) if count]
        out = [(sent[cut], block[OUT[face]]) for face, cut in cuts]
        into = [(block[IN[face]], received[cut]) for face, cut in cuts]
        exchange_all = self.hood.all_to_all_v

        def exchange() -> None:
            for buffer, cells in out:
                np.copyto(buffer, cells)
            exchange_all(sent, received, counts, counts)
            for cells, buffer in into:
                np.copyto(cells, buffer)

        return exchange

    def close(self) -> None:
        self.world.close()


class Mpi:
    ways = ("messages", "persistent", "neighbourhood")

    def __init__(self) -> None:
        from mpi4py import MPI

        self.mpi = MPI
        world = MPI.COMM_WORLD
        self.rank, self.size = world.rank, world.size
        self.comm = world.Create_cart(grid_of(self.size), periods=[False, False], reorder=False)
        self.faces = faces_with([rank for axis in range(2) for rank in self.comm.Shift(axis, 1)])
        self.barrier = self.comm.Barrier
        self._in, self._out = np.zeros(1), np.zeros(1)

    def sum(self, number: float) -> float:
        self._in[0] = number
        self.comm.Allreduce(self._in, self._out)
        return float(self._out[0])

    def exchange(self, way: str, block: np.ndarray) -> Exchange:
        self._types = [self.mpi.DOUBLE.Create_contiguous(block.shape[1] - 2).Commit()] * 2
        self._types += [self.mpi.DOUBLE.Create_vector(block.shape[0] - 2, 1, block.shape[1]).Commit()] * 2
        return getattr(self, f"_{way}")(block)

    def _places(self, block: np.ndarray, faces: tuple[Any, ...]) -> list[int]:
        return [block[face].__array_interface__["data"][0] - block.ctypes.data for face in faces]

    def _buffers(self, block: np.ndarray, faces: tuple[Any, ...]) -> list[list[Any]]:
        flat = block.reshape(-1)
        return [
            [flat[place // 8 :], 1, kind] for place, kind in zip(self._places(block, faces), self._types, strict=True)
        ]

    def _messages(self, block: np.ndarray) -> Exchange:
        comm, wait_all = self.comm, self.mpi.Request.Waitall
        out, into = self._buffers(block, OUT), self._buffers(block, IN)

        def exchange() -> None:
            requests = [comm.Irecv(into[face], peer, OPPOSITE[face]) for face, peer in self.faces]
            requests += [comm.Isend(out[face], peer, face) for face, peer in self.faces]
            wait_all(requests)

        return exchange

    def _persistent(self, block: np.ndarray) -> Exchange:
        out, into = self._buffers(block, OUT), self._buffers(block, IN)
        requests = [self.comm.Recv_init(into[face], peer, OPPOSITE[face]) for face, peer in self.faces]
        requests += [self.comm.Send_init(out[face], peer, face) for face, peer in self.faces]
        start_all, wait_all = self.mpi.Prequest.Startall, self.mpi.Request.Waitall

        def exchange() -> None:
            start_all(requests)
            wait_all(requests)

        return exchange

    def _neighbourhood(self, block: np.ndarray) -> Exchange:
        ones, comm = [1] * 4, self.comm
        out = [block, ones, self._places(block, OUT), self._types]
        into = [block, ones, self._places(block, IN), self._types]
        return lambda: comm.Neighbor_alltoallw(out, into)

    def close(self) -> None:
        pass


LIBRARIES = {"onstream": Onstream, "mpi": Mpi}


class Arena:
    """The arrays of one way of a program, which lie alike for every way and library: how they share the caches makes a step
    a fifth longer or shorter.
    """

    PAGE = 4096
    STAGGER = 17 * 64  # bytes, so that no two arrays begin at the same place of a page

    def __init__(self, nbytes: int = 64 << 20) -> None:
        self._room = np.zeros(nbytes + self.PAGE, np.uint8)
        self._first = -self._room.ctypes.data % self.PAGE
        self.clear()

    def clear(self) -> None:
        self._at = self._first

    def zeros(self, *shape: int) -> np.ndarray:
        nbytes = 8 * int(np.prod(shape))
        array = self._room[self._at : self._at + nbytes].view(np.float64).reshape(shape)
        self._at += -(-nbytes // self.PAGE) * self.PAGE + self.STAGGER
        array[...] = 0
        return array


ARENA = Arena()


def block_of(columns: int, rank: int, size: int) -> np.ndarray:
    """This rank's block of a grid of columns² cells, with its ghost cells: a hill, cut where the ranks' blocks meet."""
    rows, cols = grid_of(size)
    row, col = divmod(rank, cols)
    heights, widths = np.array_split(np.arange(columns), rows)[row], np.array_split(np.arange(columns), cols)[col]
    block = ARENA.zeros(len(heights) + 2, len(widths) + 2)
    hill = np.exp(-(((np.arange(columns) - 0.4 * columns) / (0.2 * columns)) ** 2))
    block[1:-1, 1:-1] = hill[heights, None] * hill[None, widths]
    return block


def time_steps(library: Any, step: Callable[[], Any], steps: int, rounds: int = 9) -> float:
    """The median over rounds of the time of a step, in us."""
    times = []
    for _ in range(rounds):
        library.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        times.append((time.perf_counter() - begin) / steps * 1e6)
    return statistics.median(times)


def run(program: str, make: Callable[[Any, str, int], tuple[Callable[[], Any], Callable[[], float]]]) -> None:
    """Times a program's step for each way and size that the command line names: LIBRARY STEPS COLUMNS...

    make(library, way, columns) returns a step and a check: a number that every library and way has to come to.
    """
    name, steps, *sizes = sys.argv[1:]
    library = LIBRARIES[name]()
    for columns in map(int, sizes):
        for way in library.ways:
            ARENA.clear()
            step, check = make(library, way, columns)
            for _ in range(20):
                step()
            value = check()
            row = {"program": program, "case": way, "columns": columns, "check": value}
            row["step_us"] = time_steps(library, step, int(steps))
            if library.rank == 0:
                print(json.dumps(row), flush=True)
    library.close()
