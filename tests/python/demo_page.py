"""A page of the demo as tests read it: that it needs nothing else, and that its frames, times and halos are all there."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from onstream import _core

EMPTY = frozenset({"meta", "img", "input", "br"})  # tags that nothing closes
PATHS = {"ll", "store", "load", "copy", "memop", "stage"}
# Rows and columns from a block to its neighbour, and the name of the halo between them.
SIDES = (
    (1, 0, "halo axis 0+, northern row"),
    (-1, 0, "halo axis 0-, southern row"),
    (0, 1, "halo axis 1+, eastern column"),
    (0, -1, "halo axis 1-, western column"),
)


class Page(HTMLParser):
    """Fails unless every tag is closed in its turn and nothing comes from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.rows: list[list[str]] = []  # of its one table, without the head
        self.images: list[str] = []  # within drawings
        self.words: dict[str, list[str]] = {}  # of each drawing, by its name
        self.frames: dict[str, Any] = {}  # the player's
        self._open: list[str] = []
        self._drawing = ""
        self._player = False
        self.feed(text)
        self.close()
        assert self._open == []
        assert "url(http" not in text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        for name in {"src", "href", "srcset"} & values.keys():
            assert values[name].startswith(("data:", "#")), f"{tag} {name}={values[name]}"
        if tag == "svg":
            self._drawing = values.get("aria-label", "")
        elif tag == "image":
            self.images.append(values["href"])
        elif tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")
        self._player = tag == "script" and values.get("id") == "frames"
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag
        if tag == "thead":
            self.rows.clear()

    def handle_data(self, data: str) -> None:
        if self._player:
            self.frames = json.loads(data)
            self._player = False
        elif "td" in self._open:
            self.rows[-1][-1] += data
        elif "svg" in self._open:
            self.words.setdefault(self._drawing, []).append(data)


def picture(uri: str) -> Image.Image:
    """The image that a data URI holds."""
    head, _, data = uri.partition(";base64,")
    assert head in ("data:image/webp", "data:image/png")
    return Image.open(io.BytesIO(base64.b64decode(data, validate=True)))


def pixels(uri: str) -> NDArray[np.uint8]:
    return np.asarray(picture(uri).convert("RGB"))


def check_frames(page: Page, count: int, minutes: float, size: tuple[int, int]) -> None:
    """So many frames from the start to the end, of this width and height, and seven drawings: six moments, the highest."""
    assert len(page.frames["images"]) == len(page.frames["labels"]) == len(page.frames["minutes"]) == count
    assert page.frames["minutes"][0] == 0
    assert page.frames["minutes"][-1] == pytest.approx(minutes)
    assert all(np.diff(page.frames["minutes"]) > 0)
    frames = page.frames["images"]
    assert {picture(uri).size for uri in frames} == {size}
    assert not np.array_equal(pixels(frames[0]), pixels(frames[-1]))
    assert len(page.images) == 7
    for uri in page.images:
        assert pixels(uri).std() > 1


def check_times(page: Page, ranks: int) -> None:
    """Each rank has its two streams' times in two parts, which come to their total; rank 0's steps take no longer than
    the page says of all.
    """
    words = page.words["Time of a step by rank"][5:]  # behind the scale
    assert len(words) == 9 * ranks
    for rank in range(ranks):
        row = words[9 * rank : 9 * (rank + 1)]
        assert (row[0], row[1], row[5]) == (f"rank {rank}", "compute", "exchange")
        for parts, kinds in ((row[2:5], ("compute", "wait")), (row[6:9], ("exchange", "neighbour"))):
            values = [
                float(re.fullmatch(rf"rank {rank}, {kind}: (\d+\.\d) µs a step", part)[1])  # type: ignore[index]
                for kind, part in zip(kinds, parts, strict=False)
            ]
            total = float(parts[2].removesuffix(" µs"))
            assert abs(sum(values) - total) <= 0.5 + 2 * 0.05 + 1e-9
            if kinds[0] == "compute":
                assert values[0] > 0
                if rank == 0:
                    each = float(re.search(r"<b>(\d+) µs</b><span>per step", page.text)[1])  # type: ignore[index]
                    assert total <= 1.01 * each + 2
            assert (sum(values) > 0) == (ranks > 1 or kinds[0] == "compute")


def check_halos(page: Page, ranks: int, rows: int, columns: int) -> None:
    """The table has a send and a receive for each neighbour of each rank, with their data, the path and the reason."""
    up, across = _core.tsunami_grid(ranks, rows, columns)
    expected = []
    for rank in range(ranks):
        first_row, last_row, first_column, last_column = _core.tsunami_block(rank, ranks, rows, columns)
        for north, east, note in SIDES:
            row, column = rank // across + north, rank % across + east
            if not (0 <= row < up and 0 <= column < across):
                continue
            layout = (
                f"contiguous, {8 * (last_column - first_column)} B"
                if north
                else f"{last_row - first_row} x 8 B, stride {8 * (last_column - first_column + 2)} B"
            )
            for op in ("send to", "recv from"):
                expected.append([str(rank), f"{op} {row * across + column}", note, layout])
    assert sorted(row[:4] for row in page.rows) == sorted(expected)
    assert all(row[4] in PATHS and row[5] for row in page.rows)
