"""The bench: plots, and the page of results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench_results import made_up, row
from onstream.bench import lines, plot, report, results
from onstream.errors import InvalidArgumentError


def line(*points: tuple[float, float]) -> plot.Line:
    return plot.Line("a <b>", 0, tuple(plot.Point(x, y, y * 0.9, y * 1.2, "note & more") for x, y in points))


def drawn(*these: plot.Line, rules: tuple[plot.Rule, ...] = ()) -> str:
    return plot.svg(plot.Plot("t", "time", report.size_tick, report.time_tick, these, rules))


def test_a_plot_is_well_formed_whatever_the_names() -> None:
    rule = plot.Rule("limit <x>", 0, ((8.0, 1e-6), (1024.0, 1e-6)))
    tree = ElementTree.fromstring(drawn(line((8, 1e-6), (1024, 2e-6), (2**20, 1e-3)), rules=(rule,)))
    assert len(tree.findall("circle")) == 3
    assert len([path for path in tree.findall("path") if "rule" in path.attrib["class"]]) == 1
    for circle in tree.findall("circle"):
        assert 0 < float(circle.attrib["cx"]) < plot.WIDTH
        assert 0 < float(circle.attrib["cy"]) < plot.HEIGHT


def test_a_larger_time_is_drawn_higher_and_a_larger_size_further_right() -> None:
    first, second = ElementTree.fromstring(drawn(line((8, 1e-6), (1024, 1e-3)))).findall("circle")
    assert float(first.attrib["cx"]) < float(second.attrib["cx"])
    assert float(first.attrib["cy"]) > float(second.attrib["cy"])


@pytest.mark.parametrize("points", [[(8, 1e-6)], [(8, 1e-6), (16, 1e-6)], [(1, 1e-9), (2**30, 10.0)]])
def test_one_point_equal_points_and_all_the_decades_can_be_drawn(points: list[tuple[float, float]]) -> None:
    tree = ElementTree.fromstring(drawn(line(*points)))
    ticks = [text for text in tree.findall("text") if text.attrib["class"] == "tick"]
    assert 2 <= len(ticks) <= 2 * plot.MAX_TICKS


def test_nothing_to_draw_is_no_plot() -> None:
    assert drawn() == ""
    assert drawn(plot.Line("empty", 0, ())) == ""


def made_up_message(device: str = "NVIDIA H200") -> dict[str, Any]:
    rows = [
        row(who, "ping-pong", submission, size, 2e-6 + size / 300e9)
        for who, submission in (("onstream", "captured"), ("nccl", "captured"), ("openmpi", "host"))
        for size in (0, 8, 65536, 2**30)
    ]
    told = {"command": "onstream bench <message>", "peers_missing": {"nvshmem": "there is no libnvshmem_host.so.3"}}
    return made_up(rows, "cuda", device) | told | {"peers": {}}


def test_the_page_names_modes_peers_limits_bars_and_what_is_missing() -> None:
    page = report.page([made_up_message()])
    assert "Ping-pong, one way · stream-ordered, captured in a graph" in page
    for text in (
        "NCCL",
        "Open MPI, the host waits",
        "limit: copy engine to a peer",
        "without NVSHMEM: there is no lib",
    ):
        assert text in page
    assert page.count("<svg") >= 2
    assert "onstream bench &lt;message&gt;" in page
    assert "prefers-color-scheme: dark" in page


def test_the_page_fetches_nothing() -> None:
    page = report.page([made_up_message()])
    assert not re.search(r"""(src|href)\s*=|@import|url\(|https?://""", page)


def test_limits_of_other_hardware_are_not_drawn() -> None:
    assert "limit: " not in report.page([made_up_message("NVIDIA T4")])


def test_what_is_no_result_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    for text in (
        "{}",
        "[]",
        "no json",
        '{"schema": 1}',
        '{"schema": 99, "kind": "message"}',
        '{"schema": 1, "kind": "dance"}',
    ):
        file.write_text(text)
        with pytest.raises(InvalidArgumentError, match=r"other\.json"):
            results.load(file, lines.KINDS)
    with pytest.raises(InvalidArgumentError, match="of dance; there are message"):
        report.page([{"kind": "dance"}])


def test_floors_say_where_they_come_from() -> None:
    for floor in json.loads(report.FLOORS_FILE.read_text())["floors"]:
        assert floor["source"]
        assert floor["quantity"] in ("latency", "bandwidth", "both")
        assert floor["start_us"] > 0
