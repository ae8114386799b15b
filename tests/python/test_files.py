"""Files of decomposed arrays: every decomposition, and mistakes of one rank, which every rank is told."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_ranks
from rank_threads import run

import onstream as ons


def whole_of(*shape: int, dtype: str = "f8") -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["f8", ">i4", "c8", "u1", "?", "f2"])
@pytest.mark.parametrize("rows", [1, 7, 8])
def test_slabs_become_one_file_and_come_back(tmp_path: Path, rows: int, dtype: str) -> None:
    file, whole = tmp_path / "field.npy", whole_of(rows, 3, dtype=dtype)

    def body(world: ons.World) -> None:
        mine = np.array_split(whole, world.size)[world.rank]
        ons.save_npy(file, mine, world)
        assert sorted(tmp_path.iterdir()) == [file]
        part = ons.load_npy(file, world)
        assert part.dtype == mine.dtype
        assert (part == mine).all()
        assert part.shape == mine.shape

    run(3, body)
    assert np.load(file).dtype == np.dtype(dtype)
    assert (np.load(file) == whole).all()


@pytest.mark.parametrize(("shape", "dims"), [((5, 6), (2, 2)), ((4, 6, 3), (4, 1)), ((4, 5), (1, 4)), ((9,), (4,))])
def test_blocks_lie_as_the_ranks_of_a_grid(tmp_path: Path, shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    file, whole = tmp_path / "grid.npy", whole_of(*shape)

    def body(world: ons.World) -> None:
        grid = world.cartesian(dims)
        mine: Any = whole
        for axis, (dim, at) in enumerate(zip(grid.dims, grid.coords, strict=True)):
            mine = np.array_split(mine, dim, axis)[at]
        ghosts = np.pad(mine, 1, constant_values=-1)
        ons.save_npy(file, ghosts[(slice(1, -1),) * mine.ndim], world, grid=grid)
        assert (ons.load_npy(file, world, grid=grid) == mine).all()

    run(4, body)
    assert (np.load(file) == whole).all()


def test_offsets_place_any_blocks_and_parts_read_may_overlap(tmp_path: Path) -> None:
    file, whole = tmp_path / "any.npy", whole_of(6, 4)
    places = [(0, 0, 2, 4), (2, 0, 4, 1), (2, 1, 4, 3)]

    def body(world: ons.World) -> None:
        row, column, rows, columns = places[world.rank]
        mine = np.asfortranarray(whole[row : row + rows, column : column + columns])
        ons.save_npy(str(file), mine, world, offset=(row, column))
        first = max(0, 2 * world.rank - 1)
        part = ons.load_npy(file, world, offset=(first, 0), shape=(3, 4))
        assert (part == whole[first : first + 3]).all()
        part[:] = 0  # its own memory

    run(3, body)
    assert (np.load(file) == whole).all()


def test_teams_write_files_of_their_own_and_empty_arrays_are_files(tmp_path: Path) -> None:
    def body(world: ons.World) -> None:
        team = world.split(world.rank % 2)
        file = tmp_path / f"{world.rank % 2}.npy"
        ons.save_npy(file, np.full((1, 2), team.rank), team)
        assert ons.load_npy(file, team, offset=(0, 0), shape=(2, 2)).tolist() == [[0, 0], [1, 1]]
        ons.save_npy(file, np.zeros((0, 2)), team)
        assert ons.load_npy(file, team).shape == (0, 2)
        ons.save_npy(file, np.zeros(3 if team.rank == 1 else 0), team)
        assert ons.load_npy(file, team, offset=[0], shape=[3]).tolist() == [0, 0, 0]

    run(4, body)


def refused(tmp_path: Path, words: str, kind: type[Exception] = ons.InvalidArgumentError, **wrong: Any) -> None:
    """Each rank of three gives block(rank) and options(rank), and every rank is told."""
    file = tmp_path / "old.npy"
    np.save(file, [1])
    block = wrong.get("block", lambda _: np.ones((2, 2)))
    options = wrong.get("options", lambda *_: {})

    def body(world: ons.World) -> None:
        with pytest.raises(kind, match=words):
            ons.save_npy(wrong.get("path", file), block(world.rank), world, **options(world.rank, world))
        assert world.all_reduce(1) == 3

    run(3, body)
    assert [path.name for path in tmp_path.iterdir()] == ["old.npy"]
    assert np.load(file).tolist() == [1]


def test_overlap_gap_and_unlike_blocks_are_refused_by_name(tmp_path: Path) -> None:
    overlap = r"save_npy: the blocks of rank 0 \(from \(0, 0\) to \(2, 2\)\) and rank 2 \(from \(1, 0\) .* overlap"
    refused(tmp_path, overlap, options=lambda rank, _: {"offset": [(0, 0), (3, 0), (1, 0)][rank]})
    gap = r"save_npy: no rank has cell \(2, 0\) of the array of shape \(7, 2\)"
    refused(tmp_path, gap, options=lambda rank, _: {"offset": [(0, 0), (3, 0), (5, 0)][rank]})
    narrow = r"no rank has cell \(2, 1\) of the array of shape \(6, 2\)"
    refused(tmp_path, narrow, block=lambda rank: np.ones((2, 1 if rank == 1 else 2)))
    unlike = r"rank 0 has a block of 2 dimensions of '<f8', but rank 2 one of 2 of '<f4'"
    refused(tmp_path, unlike, block=lambda rank: np.ones((2, 2), "f4" if rank == 2 else "f8"))
    refused(tmp_path, "but rank 1 one of 3 of '<f8'", block=lambda rank: np.ones((2,) * (3 if rank == 1 else 2)))


def test_wrong_arguments_of_one_rank_are_told_to_all(tmp_path: Path) -> None:
    refused(
        tmp_path, r"on rank 1: .*offset=\(1,\) needs one", options=lambda r, _: {"offset": (1,) if r == 1 else (0, 0)}
    )
    refused(
        tmp_path,
        r"on rank 2: offset=\(-1, 0\) has a neg",
        options=lambda r, _: {"offset": (-1, 0) if r == 2 else (0, 0)},
    )
    refused(tmp_path, r"offsets are given by ranks \[0\]", options=lambda r, _: {"offset": (0, 0)} if r == 0 else {})
    refused(tmp_path, "on rank 1: the block is a int with no dim", block=lambda r: 3 if r == 1 else np.ones((2, 2)))
    refused(tmp_path, "with Python objects", block=lambda r: np.array([[None]]))
    one = ons.InvalidArgumentError
    refused(tmp_path, r"a grid of \(1, 1, 3\) is not", one, options=lambda _, w: {"grid": w.cartesian((1, 1, 3))})


def test_a_rank_that_cannot_write_makes_all_raise(tmp_path: Path) -> None:
    refused(tmp_path, "on rank 0: FileNotFoundError", ons.SystemError, path=tmp_path / "none" / "x.npy")


def test_reading_mistakes_are_told_to_all(tmp_path: Path) -> None:
    text, objects, small, number = (tmp_path / f"{name}.npy" for name in ("text", "objects", "small", "number"))
    text.write_text("no array at all, but some text")
    np.save(objects, np.array([None, 1]))
    np.save(small, whole_of(4, 2))
    np.save(number, 3)

    def body(world: ons.World) -> None:
        for file in (text, objects):
            with pytest.raises(
                ons.InvalidArgumentError, match=r"load_npy: on rank 0 \(and on 1 others\): .*is no .npy file"
            ):
                ons.load_npy(file, world)
        with pytest.raises(ons.InvalidArgumentError, match="holds no array of 1 dimension"):
            ons.load_npy(number, world)
        with pytest.raises(ons.SystemError, match="FileNotFoundError"):
            ons.load_npy(tmp_path / "none.npy", world)
        far = (3 * world.rank, 0)
        with pytest.raises(
            ons.InvalidArgumentError, match=r"on rank 1: cells \(3, 0\) to \(5, 2\) reach beyond .*\(4, 2\)"
        ):
            ons.load_npy(small, world, offset=far, shape=(2, 2))
        with pytest.raises(ons.InvalidArgumentError, match="give offset and shape, or neither"):
            ons.load_npy(small, world, offset=far)
        with pytest.raises(ons.InvalidArgumentError, match="the ranks see other files"):
            ons.load_npy([small, tmp_path / "other.npy"][world.rank], world)

    np.save(tmp_path / "other.npy", whole_of(4, 3))
    run(2, body)


def write_and_read(world: ons.World, file: str) -> None:
    whole, grid = whole_of(6, 4), world.cartesian((0, 0))
    mine = np.array_split(np.array_split(whole, grid.dims[0])[grid.coords[0]], grid.dims[1], 1)[grid.coords[1]]
    for _ in range(3):
        ons.save_npy(file, mine, world, grid=grid)
        assert (np.load(file) == whole).all()
        assert (ons.load_npy(file, world, grid=grid) == mine).all()
        world.sync()


def test_processes_write_one_file(tmp_path: Path) -> None:
    run_ranks(tmp_path, 4, [write_and_read], str(tmp_path / "field.npy"), device="host")


def a_disk_that_is_full(world: ons.World, folder: str) -> None:
    file = Path(folder) / "field.npy"
    ons.save_npy(file, np.full((4, 3), 7.0), world)
    if world.rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    with pytest.raises(ons.SystemError, match=r"on rank 1: OSError: .*File too large"):
        ons.save_npy(file, np.ones((1 << 18, 3)), world)
    assert (ons.load_npy(file, world) == 7).all()
    assert [one.name for one in file.parent.iterdir()] == ["field.npy"]


def test_a_full_disk_raises_on_every_rank(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    run_ranks(tmp_path, 2, [a_disk_that_is_full], str(tmp_path / "disk"), device="host")


def test_ranks_that_give_different_grids_are_told(tmp_path: Path) -> None:
    def body(world: ons.World) -> None:
        grid = world.cartesian((1, 2)) if world.rank == 0 else None
        with pytest.raises(ons.InvalidArgumentError, match=r"the ranks give different grids: \[\(1, 2\), None\]"):
            ons.save_npy(tmp_path / "grid.npy", np.ones((2, 2)), world, grid=grid)

    run(2, body)


def test_a_part_of_a_file_in_fortran_order_is_contiguous(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.asfortranarray(whole_of(4, 5)))

    def body(world: ons.World) -> None:
        part = ons.load_npy(tmp_path / "f.npy", world)
        assert part.flags.c_contiguous
        world.all_reduce(part)
        assert (part == whole_of(4, 5)[:2] + whole_of(4, 5)[2:]).all()

    run(2, body)
