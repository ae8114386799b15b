"""The demo: its input, its decisions, its solver's results, and the whole of it with several ranks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from demo_page import Page, check_frames, check_halos, check_times, picture
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import DEVICES
from onstream.demo import bathymetry, driver, raster, run_demo, sea, voyage
from onstream.demo.job import Job
from onstream.errors import InvalidArgumentError, UnsupportedError
from PIL import Image
from tsunami_reference import Reference

from onstream import Launch, World, _core


def bowl(rows: int = 24, columns: int = 32) -> np.ndarray:
    """A round sea with a coast all around and an island."""
    y, x = np.mgrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j]
    return -800.0 * (0.9 - x**2 - y**2) + 900.0 * np.exp(-((x - 0.3) ** 2 + y**2) / 0.01)


@pytest.fixture(scope="module")
def salish() -> sea.Sea:
    return sea.build(bathymetry.load(), 90, 120)


# --- files ---


def test_the_default_sea_floor_is_the_one_that_matplotlib_ships() -> None:
    floor = bathymetry.load()
    assert floor.elevation.shape == (91, 120)
    assert floor.geographic
    assert floor.x[0] == pytest.approx(-125.98, abs=0.01)
    assert floor.y[0] < floor.y[-1]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (np.full((9, 9), 12.0), "land only: its lowest cell is 12 m"),
        (np.full((9,), -5.0), "shape (9,)"),
        (np.full((9, 9, 2), -5.0), "shape (9, 9, 2)"),
        (np.where(np.eye(9) > 0, np.nan, -5.0), "9 of 81 cells that are NaN"),
        (np.where(np.eye(9) > 0, -np.inf, -5.0), "9 of 81 cells that are NaN or infinite"),
        (np.full((2, 90), -5.0), "2 x 90 cells"),
        (np.full((9, 9), "deep"), "not numbers"),
        (np.full((9, 9), -5j), "not numbers"),
    ],
    ids=["land", "line", "cube", "nan", "infinite", "small", "text", "complex"],
)
def test_elevations_that_are_no_sea_floor_are_refused(tmp_path: Path, values: np.ndarray, complaint: str) -> None:
    np.save(tmp_path / "floor.npy", values)
    np.savez(tmp_path / "floor.npz", topo=values)
    for name in ("floor.npy", "floor.npz"):
        with pytest.raises(InvalidArgumentError, match=re.escape(complaint)) as caught:
            bathymetry.load(tmp_path / name)
        assert name in str(caught.value)


@pytest.mark.parametrize(
    "name", ["missing.npz", "floor.tiff", "garbage.npz", "garbage.npy", "garbage.png", "folder.npy"]
)
def test_files_that_cannot_be_read_are_refused_by_name(tmp_path: Path, name: str) -> None:
    for garbage in ("garbage.npz", "garbage.npy", "garbage.png", "floor.tiff"):
        (tmp_path / garbage).write_bytes(b"this is no array" * 9)
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(InvalidArgumentError, match=re.escape(name)):
        bathymetry.load(tmp_path / name)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "floor.npy", np.array([[object()] * 5] * 5), allow_pickle=True)
    np.savez(tmp_path / "floor.npz", topo=np.array([[object()] * 5] * 5))
    for name in ("floor.npy", "floor.npz"):
        with pytest.raises(InvalidArgumentError, match="holds Python objects, not numbers") as caught:
            bathymetry.load(tmp_path / name)
        assert "allow_pickle" not in str(caught.value)


@pytest.mark.parametrize("name", ["floor.npy", "floor.npz", "floor.png"])
def test_a_file_of_another_kind_is_told_by_what_writes_the_right_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("ncols 4\nnrows 4\n-1 -2 -3 -4\n")
    with pytest.raises(InvalidArgumentError, match=r"is no \.np[yz] file|is no \.png file") as caught:
        bathymetry.load(tmp_path / name)
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "told"), [(1e30, "1e+30"), (-1e30, "-1e+30"), (-12_500.0, "-12500"), (9.97e36, "9.97e+36")]
)
def test_elevations_that_no_earth_has_are_refused(tmp_path: Path, value: float, told: str) -> None:
    values = bowl()
    values[3, 5] = value
    np.save(tmp_path / "floor.npy", values)
    with pytest.raises(InvalidArgumentError, match=re.escape(f"row 3, column 5 is {told} m")):
        bathymetry.load(tmp_path / "floor.npy")


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300), kind=st.sampled_from(["npz", "npy", "png"]))
def test_any_bytes_give_a_sea_floor_or_one_clear_error(tmp_path_factory: Any, data: bytes, kind: str) -> None:
    magic = {"npz": b"PK\x03\x04", "npy": b"\x93NUMPY\x01\x00", "png": b"\x89PNG\r\n\x1a\n"}[kind]
    file = tmp_path_factory.mktemp("bytes") / f"floor.{kind}"
    for content in (data, magic + data):
        file.write_bytes(content)
        load_or_say_why(file)


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(["npz", "npy", "png"]),
    cut=st.floats(0.5, 1.0),
    damages=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=6),
)
def test_a_damaged_file_gives_a_sea_floor_or_one_clear_error(
    tmp_path_factory: Any, kind: str, cut: float, damages: list[tuple[float, int]]
) -> None:
    image = pytest.importorskip("matplotlib.image")
    file = tmp_path_factory.mktemp("damaged") / f"floor.{kind}"
    floor, degrees = bowl(9, 9), np.arange(9.0)
    if kind == "npz":
        np.savez(file, topo=floor, lon=degrees, lat=degrees)
    elif kind == "npy":
        np.save(file, floor)
    else:
        image.imsave(file, floor)
    content = bytearray(file.read_bytes())
    del content[int(cut * len(content)) :]
    for where, value in damages:
        content[int(where * len(content))] = value
    file.write_bytes(content)
    load_or_say_why(file)


def load_or_say_why(file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, about headers
        try:
            bathymetry.load(file)
        except InvalidArgumentError as error:
            assert file.name in str(error)


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"topo": -np.ones((5, 5)), "cell_m": np.array([])}, "cell_m is not one number"),
        ({"topo": -np.ones((5, 5)), "cell_m": np.array("wide")}, "cell_m is not one number"),
        ({"topo": -np.ones((5, 5)), "lon": np.array(list("abcde")), "lat": np.arange(5.0)}, "longitude holds <U1"),
        ({"topo": -np.ones((5, 5)), "lon": np.arange(5.0), "lat": np.arange(5) * 1j}, "latitude holds complex128"),
        ({"a": -np.ones((5, 5)), "b": -np.ones((5, 5))}, "a (5, 5), b (5, 5); it needs one"),
        ({}, "holds nothing"),
        ({"topo": -np.ones((5, 6)), "longitude": np.arange(5.0), "latitude": np.arange(5.0)}, "need (6,)"),
        ({"topo": -np.ones((5, 5)), "longitude": np.arange(5.0)}, "only one of longitude and latitude"),
        ({"topo": -np.ones((5, 5)), "lon": np.zeros(5), "lat": np.arange(5.0)}, "neither rises nor falls"),
        ({"topo": -np.ones((5, 5)), "lon": np.arange(5.0), "lat": 40.0 * np.arange(5.0)}, "away from the poles"),
        ({"topo": -np.ones((5, 5)), "cell_m": np.array(-3.0)}, "cell_m is -3"),
    ],
    ids=[
        "no cell",
        "cell of text",
        "axis of text",
        "complex axis",
        "two planes",
        "empty",
        "axis length",
        "one axis",
        "flat axis",
        "poles",
        "cell",
    ],
)
def test_npz_files_say_what_is_missing(tmp_path: Path, arrays: dict[str, np.ndarray], complaint: str) -> None:
    np.savez(tmp_path / "floor.npz", **arrays)
    with pytest.raises(InvalidArgumentError, match=re.escape(complaint)):
        bathymetry.load(tmp_path / "floor.npz")


def test_a_map_given_from_the_north_is_turned_over(tmp_path: Path) -> None:
    values = -np.arange(20.0).reshape(4, 5) - 1
    lat, lon = np.array([4.0, 3.0, 2.0, 1.0]), np.arange(5.0)
    np.savez(tmp_path / "floor.npz", elevation=values, lat=lat, lon=lon)
    floor = bathymetry.load(tmp_path / "floor.npz")
    assert np.array_equal(floor.y, lat[::-1])
    assert np.array_equal(floor.elevation, values[::-1])


def test_a_picture_is_grey_levels_about_the_sea_surface(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    grey = np.linspace(0, 1, 40).reshape(5, 8)
    image.imsave(tmp_path / "floor.png", np.dstack([grey] * 3))
    floor = bathymetry.load(tmp_path / "floor.png")
    assert floor.elevation.shape == (5, 8)
    assert floor.elevation[-1, 0] == pytest.approx(-bathymetry.PNG_RANGE_M, abs=40)  # the dark top is north
    assert floor.elevation[0, -1] == pytest.approx(bathymetry.PNG_RANGE_M, abs=40)


# --- the sea ---


def test_interpolation_is_exact_for_what_is_bilinear() -> None:
    y, x = np.linspace(40, 42, 7), np.linspace(-10, -7, 9)
    floor = bathymetry.Bathymetry(-100 - 3 * y[:, None] * x[None, :] * -1, x, y, True, "a plane")
    built = sea.build(floor, 33, 45)
    assert np.allclose(built.elevation, -100 + 3 * built.y[:, None] * built.x[None, :], rtol=0, atol=1e-9)


def test_cells_are_measured_on_the_sphere(salish: sea.Sea) -> None:
    degree = 2 * np.pi * sea.EARTH_RADIUS_M / 360
    west, east, south, north = salish.edges
    assert salish.height_m * salish.rows == pytest.approx((north - south) * degree)
    assert salish.width_m[0] * salish.columns == pytest.approx((east - west) * degree * np.cos(np.radians(salish.y[0])))
    assert salish.face_width_m[0] > salish.width_m[0] > salish.face_width_m[1]


def test_the_hump_lies_on_water_and_its_height_is_right(salish: sea.Sea) -> None:
    surface = sea.hump(salish, (-125.7, 48.3), 4.0, 12_000.0)
    assert surface.max() == pytest.approx(4.0, rel=0.02)
    assert np.all(surface[~salish.wet] == 0)


def test_the_chosen_source_is_deep_and_a_source_on_land_is_refused(salish: sea.Sea) -> None:
    row, column = salish.cell_at(*voyage.choose_source(salish, 11_000.0), "it")
    assert salish.elevation[row, column] < -500
    with pytest.raises(InvalidArgumentError, match="on land"):
        voyage.check_source(salish, (-124.2, 48.8))
    with pytest.raises(InvalidArgumentError, match="not on this map"):
        voyage.check_source(salish, (10.0, 48.8))


def test_travel_times_over_a_flat_floor_follow_the_long_wave_speed() -> None:
    floor = bathymetry.Bathymetry(np.full((9, 9), -1000.0), np.arange(9.0) * 1e4, np.arange(9.0) * 1e4, False, "flat")
    built = sea.build(floor, 80, 80)
    times = voyage.travel(built, (built.x[0], built.y[0]))
    y, x = np.mgrid[:80, :80] * 1000.0
    exact = np.hypot(x, y) / np.sqrt(9.81 * 1000.0)
    assert np.all(times.time_s >= exact - 1e-6)
    assert np.all(times.time_s <= exact * 1.03 + 1e-6)
    wide = voyage.travel(built, (built.x[40], built.y[40]), 5000.0)
    from_the_edge = exact[0, 20:40] - 15_000.0 / np.sqrt(9810.0)
    assert np.abs(wide.time_s[40, 60:] - from_the_edge).max() < 1001.0 / np.sqrt(9810.0)  # a cell


def test_gauges_are_at_sea_where_the_wave_comes(salish: sea.Sea) -> None:
    times = voyage.travel(salish, voyage.choose_source(salish, 11_000.0))
    named = voyage.choose_gauges(salish, times)
    assert [gauge.name for gauge in named] == ["Ucluelet", "Victoria", "Vancouver"]
    flat = sea.build(bathymetry.Bathymetry(bowl(), np.arange(32) * 2e3, np.arange(24) * 2e3, False, "bowl"), 48, 64)
    automatic = voyage.choose_gauges(flat, voyage.travel(flat, voyage.choose_source(flat, 3000.0)))
    assert len(automatic) == 3
    for built, gauges in ((salish, named), (flat, automatic)):
        for gauge in gauges:
            assert built.wet[gauge.row, gauge.column]
            assert np.isfinite(gauge.travel_s)
    assert automatic[0].travel_s < automatic[2].travel_s


# --- the solver ---


@pytest.mark.parametrize("steps", [7, 150])
@pytest.mark.parametrize("device", DEVICES)
def test_the_solver_matches_plain_numpy_over_the_real_sea(
    salish: sea.Sea, tmp_path: Path, device: str, steps: int
) -> None:
    surface = sea.hump(salish, voyage.choose_source(salish, 11_000.0), 5.0, 11_000.0)
    dt = salish.time_step_s()
    gauges = [20 * salish.columns + 15]
    job = Job(1, device, True, False, salish.rows, salish.columns, salish.height_m, dt, steps, [0, steps], 1, gauges)
    job.save(tmp_path, salish, surface)
    reference = Reference(
        salish.depth_m, surface, salish.width_m, salish.face_width_m, salish.height_m, dt, sea.GRAVITY
    )
    expected_series = []
    for _ in range(steps):
        reference.step()
        expected_series.append(reference.eta.ravel()[gauges[0]])
    with World(launch=Launch(0, 1, 0, ""), device=device) as world:
        block = _core.tsunami_block(0, 1, salish.rows, salish.columns)
        tsunami = _core.Tsunami(world, **job.part(tmp_path, block), capture=True)
        tsunami.run(steps)
        eta, highest, series = tsunami.gather("elevation"), tsunami.gather("highest"), tsunami.gauge(0)
        del tsunami
    assert np.abs(reference.eta).max() > 1.0
    assert np.abs(eta - reference.eta).max() < 1e-12
    assert np.abs(highest - reference.highest).max() < 1e-12
    assert np.abs(reference.highest - surface).max() > 0.1  # it is not that of the start
    assert np.abs(series - expected_series).max() < 1e-12
    assert abs(salish.volume_m3(eta) / salish.volume_m3(surface) - 1) < 1e-12


def test_the_time_step_is_stable_for_thousands_of_steps() -> None:
    built = sea.build(bathymetry.Bathymetry(bowl(), np.arange(32) * 2e3, np.arange(24) * 2e3, False, "bowl"), 24, 32)
    surface = sea.hump(built, voyage.choose_source(built, 4000.0), 1.0, 4000.0)
    solver = Reference(
        built.depth_m, surface, built.width_m, built.face_width_m, built.height_m, built.time_step_s(), sea.GRAVITY
    )
    for _ in range(4000):
        solver.step()
    assert 0.001 < np.abs(solver.eta).max() < 5.0


def test_a_part_is_the_block_with_one_dry_or_neighbouring_cell_around(tmp_path: Path, salish: sea.Sea) -> None:
    job = Job(4, "host", True, False, salish.rows, salish.columns, 1.0, 1.0, 1, [0, 1], 1, [])
    job.save(tmp_path, salish, np.zeros_like(salish.elevation))
    whole = np.pad(salish.depth_m, 1)
    for rank in range(4):
        r0, r1, c0, c1 = _core.tsunami_block(rank, 4, salish.rows, salish.columns)
        part = job.part(tmp_path, (r0, r1, c0, c1))
        assert np.array_equal(part["depth_m"], whole[r0 : r1 + 2, c0 : c1 + 2])
        assert part["elevation_m"].shape == (r1 - r0, c1 - c0)


# --- the whole ---


# Ranks, and how many share a GPU; without a number as many as fit the GPUs. Four are two by two blocks.
RUNS: list[tuple[str, int | None, int, bool]] = [("host", 1, 1, True), ("host", 3, 1, False), ("host", 4, 1, True)]
if "cuda" in DEVICES:
    RUNS += [("cuda", None, 1, True), ("cuda", None, 2, True), ("cuda", 2, 2, False)]


@pytest.mark.parametrize(("device", "ranks", "ranks_per_gpu", "capture"), RUNS)
def test_the_demo_runs_checks_and_reports(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    device: str,
    ranks: int | None,
    ranks_per_gpu: int,
    capture: bool,
) -> None:
    rows, columns, steps = 61, 83, 24
    _, count, _ = driver.choose_device(device, ranks, ranks_per_gpu)
    code = run_demo(
        ranks=ranks,
        grid=(rows, columns),
        steps=steps,
        device=device,
        ranks_per_gpu=ranks_per_gpu,
        out=tmp_path / "out",
        capture=capture,
    )
    printed = capfd.readouterr()
    assert code == 0, printed.out + printed.err
    assert "FAILED" not in printed.out
    assert "Bit for bit the same" in printed.out
    assert "100 %" in printed.out
    assert f"{count} on the {device} device" in printed.out
    assert "91 x 120 points, interpolated to 61 x 83 cells" in printed.out
    page = Page((tmp_path / "out" / "index.html").read_text())
    for text in ("Ucluelet", "Victoria", "Vancouver", "Checks", "Goto"):
        assert text in page.text
    assert "interpolated from a map of 91 &times;\n120 points" in page.text
    assert "stretched" not in page.text
    assert ("of one rank, which took" in page.text) == (count > 1)
    assert ("ranks share" in page.text) == (device == "host" and count > len(os.sched_getaffinity(0)))
    assert ("one thread replays a captured step" in page.text) == (device == "host" and capture)
    time_step_s = sea.build(bathymetry.load(), rows, columns).time_step_s()
    check_frames(page, steps + 1, steps * time_step_s / 60, (860, 650))
    check_times(page, count)
    check_halos(page, count, rows, columns)
    if device == "host" and count > 1:
        assert "host_plan_ll_max_bytes" in page.text  # why a halo took its path
    with Image.open(tmp_path / "out" / "tsunami.png") as image:
        assert (image.format, image.size) == ("PNG", (1579, 1067))
        assert np.asarray(image).std() > 10


def test_the_demo_takes_the_users_own_sea_source_and_gauges(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "bowl.npy", bowl())
    code = run_demo(
        ranks=2,
        grid=(40, 50),
        hours=0.02,
        bathymetry=tmp_path / "bowl.npy",
        source=(20_000.0, 20_000.0),
        gauges=[(30_000.0, 30_000.0)],
        device="host",
        out=tmp_path / "out",
    )
    printed = capfd.readouterr()
    assert code == 0, printed.out + printed.err
    assert "bowl.npy" in printed.out
    assert "Gauge 1" in (tmp_path / "out" / "index.html").read_text()


def test_a_map_much_longer_than_wide_is_drawn_stretched(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "canal.npy", np.full((4, 2000), -100.0))
    code = run_demo(
        ranks=2,
        grid=(8, 26_000),
        steps=5,
        bathymetry=tmp_path / "canal.npy",
        device="host",
        out=tmp_path / "out",
        check=False,
    )
    printed = capfd.readouterr()
    assert code == 0, printed.out + printed.err
    page = Page((tmp_path / "out" / "index.html").read_text())
    assert "The maps are stretched: to scale they would be 666 wide and 1 high." in page.text
    assert picture(page.frames["images"][0]).size == (860, round(860 / 6))
    with Image.open(tmp_path / "out" / "tsunami.png") as image:
        assert np.asarray(image).std() > 10


@pytest.mark.parametrize(("shape", "size"), [((2000, 4), (300, 900)), ((40, 40), (300, 300)), ((4, 2000), (300, 50))])
def test_pictures_have_the_proportions_of_the_map_or_end_at_a_limit(
    shape: tuple[int, int], size: tuple[int, int]
) -> None:
    rows, columns = shape
    floor = bathymetry.Bathymetry(np.full(shape, -9.0), np.arange(columns) * 1e3, np.arange(rows) * 1e3, False, "flat")
    painter = raster.Painter(sea.build(floor, 2 * rows, 2 * columns), 300, 1.0)
    assert (painter.width, painter.height) == size
    assert painter.wave(np.zeros((2 * rows, 2 * columns))).shape == (size[1], size[0], 3)


@pytest.mark.parametrize("shape", [(8, 8), (8, 100_000), (100_000, 9), (720, 960), (1601, 8), (5000, 4000)])
def test_what_a_report_shows_of_a_sea_has_two_rows_and_columns_at_least(shape: tuple[int, int]) -> None:
    stride = driver._stride(*shape)
    shown = [len(range(stride // 2, cells, stride)) for cells in shape]
    assert min(shown) >= 2
    assert max(shown) <= driver.PICTURE_CELLS or min(shown) < 4


def test_a_report_of_no_water_has_a_scale() -> None:
    assert raster.nice_limit(np.zeros(0)) > 0


def test_a_report_that_cannot_be_written_costs_neither_the_results_nor_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "index.html").symlink_to("/dev/full")
    assert run_demo(ranks=1, grid=(16, 24), steps=2, device="host", out=tmp_path) == 1
    printed = capfd.readouterr()
    assert "Bit for bit the same" in printed.out
    assert printed.err == f"onstream demo: {tmp_path} cannot be written: No space left on device\n"


@pytest.mark.parametrize("name", ["index.html", "tsunami.png"])
def test_a_folder_in_the_place_of_a_report_is_found_before_the_job(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).mkdir()
    assert run_demo(grid=(16, 24), steps=2, device="host", out=tmp_path) == 2
    printed = capfd.readouterr()
    assert printed.err == f"onstream demo: {tmp_path / name} cannot be written: it is a folder\n"
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"bathymetry": "nowhere.npz"}, "no bathymetry file nowhere.npz"),
        ({"ranks": 0}, "0 ranks"),
        ({"ranks": 999, "grid": (8, 8)}, "999 ranks"),
        ({"grid": (3, 40)}, "too coarse"),
        ({"grid": (0, 0)}, "a grid of 0 x 0 cells has none"),
        ({"steps": 0}, "0 steps"),
        ({"hours": -1.0}, "-1.0 hours"),
        ({"hours": float("nan")}, "nan hours"),
        ({"source": (-124.2, 48.8)}, "on land"),
        ({"gauges": [(0.0, 0.0)]}, "not on this map"),
        ({"device": "tpu"}, "'tpu' is none of auto, host, cuda"),
        ({"ranks_per_gpu": 0}, "at least 1 rank"),
        ({"out": "/dev/null/out"}, "--out /dev/null/out: there is a file in the way"),
        ({"out": "/proc"}, "--out /proc: nothing can be written there"),
        ({"out": __file__}, "test_demo.py is a file; --out names a folder"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_work_is_said_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: dict[str, Any], complaint: str
) -> None:
    assert run_demo(**{"out": tmp_path / "out", **arguments}) == 2
    printed = capfd.readouterr()
    assert complaint in printed.err
    assert printed.err.startswith("onstream demo: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_checks_fail_when_water_or_bits_are_lost() -> None:
    arrays = {"frames": np.zeros((2, 3, 3)), "series": np.zeros((1, 4))}
    same = {"compared": 3, "equal": 3, "largest_difference_m": 0.0, "wall_s": 1.0, "how": "one rank"}
    good = driver._checks({"volumes": [1e9, 1e9], "check": same}, arrays)
    assert [check.passed for check in good] == [True, True, True]
    lost = driver._checks({"volumes": [1e9, 1e9 * (1 + 1e-11)], "check": {**same, "equal": 2}}, arrays)
    assert [check.passed for check in lost] == [False, False, True]
    arrays["frames"][1, 1, 1] = np.nan
    assert not driver._checks({"volumes": [1e9, 1e9], "check": None}, arrays)[-1].passed


@pytest.mark.parametrize(
    ("gpus", "arguments", "expected"),
    [
        (0, ("auto", None, 1), ("host", 4)),
        (0, ("auto", 7, 1), ("host", 7)),
        (1, ("auto", None, 1), ("host", 4)),
        (1, ("auto", None, 4), ("cuda", 4)),
        (2, ("auto", None, 1), ("cuda", 2)),
        (2, ("auto", 4, 1), ("host", 4)),
        (2, ("auto", 4, 2), ("cuda", 4)),
        (8, ("auto", 3, 1), ("cuda", 3)),
        (4, ("host", None, 1), ("host", 4)),
        (1, ("cuda", None, 1), ("cuda", 1)),
    ],
)
def test_gpus_are_used_when_there_are_enough(
    monkeypatch: pytest.MonkeyPatch, gpus: int, arguments: tuple[str, int | None, int], expected: tuple[str, int]
) -> None:
    rows = [SimpleNamespace(kind="cuda")] * gpus + [SimpleNamespace(kind="host")]
    monkeypatch.setattr(_core, "devices", lambda: rows)
    assert driver.choose_device(*arguments)[:2] == expected


def test_asking_for_gpus_that_are_not_there_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "devices", lambda: [SimpleNamespace(kind="host")])
    with pytest.raises(UnsupportedError, match="use --device host"):
        driver.choose_device("cuda", 2, 1)
    monkeypatch.setattr(_core, "devices", lambda: [SimpleNamespace(kind="cuda")] * 2)
    with pytest.raises(InvalidArgumentError, match="--ranks-per-gpu 3"):
        driver.choose_device("cuda", 5, 1)


def test_a_killed_rank_ends_the_demo_with_its_name(tmp_path: Path) -> None:
    """Kills rank 1 in the middle; the others say so at once and nothing is left running."""
    program = f"import sys; from onstream.demo import run_demo; sys.exit(run_demo(ranks=3, grid=(400, 400), device='host', out={str(tmp_path)!r}))"
    demo = subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "10 %" in line:
            break
    ranks = children(demo.pid)
    assert len(ranks) == 3
    os.kill(ranks[1], signal.SIGKILL)
    rest, _ = demo.communicate(timeout=30)
    assert demo.returncode == 128 + signal.SIGKILL
    assert "rank 1" in rest
    assert "Traceback" not in rest
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks)


def children(pid: int) -> list[int]:
    """Processes that this one started, oldest first."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sorted(int(child) for task in tasks for child in (task / "children").read_text().split())


def test_the_demos_end_by_ctrl_c_is_called_an_interrupt_and_a_reader_that_goes_is_no_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "onstream", "demo", "--device", "host", "-n", "3", "--grid", "200x300"]
    command += ["--steps", "200000", "--out", str(tmp_path / "out")]
    for interrupted in (True, False):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            try:
                assert job.stdout is not None
                assert job.stderr is not None
                while not job.stdout.readline().startswith("3 ranks"):
                    assert job.poll() is None
                if interrupted:
                    job.send_signal(signal.SIGINT)
                else:
                    job.stdout.close()
                errors = job.stderr.read()
                code = job.wait(60)
            finally:
                job.kill()
        if interrupted:
            assert (code, errors) == (128 + signal.SIGINT, "onstream demo: interrupted by SIGINT\n")
        else:
            assert (code, errors) == (128 + signal.SIGPIPE, "")
