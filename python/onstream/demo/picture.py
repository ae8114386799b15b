"""The key picture as a PNG: the wave at six moments, and the gauges below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from . import page, raster, svg
from .outcome import Outcome, clock

_GAUGES = ("#c2412d", "#2166ac", "#5b7f1f", "#8a4fae")


def write(outcome: Outcome, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    limit = page.wave_limit(outcome)
    painter = raster.Painter(outcome.sea, 640, limit)
    across, margin, gap, foot = 3, 0.75, 0.28, 1.75
    panel = 4.0
    tall = panel * painter.height / painter.width
    width = margin + across * panel + (across - 1) * gap + 1.05
    height = foot + 2 * tall + 0.55 + 1.0 + 0.35
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    frames = page.panel_frames(outcome, 6)
    for k, frame in enumerate(frames):
        left = margin + (k % across) * (panel + gap)
        bottom = foot + 0.35 + (1 - k // across) * (tall + 0.5)
        axis = figure.add_axes((left / width, bottom / height, panel / width, tall / height))
        _panel(axis, outcome, painter.wave(outcome.frames[frame]), k)
        axis.set_title(clock(outcome.minutes_at(frame)), fontsize=11, loc="left", fontweight="bold", pad=4)
    _colour_bar(
        figure, limit, ((width - 0.85) / width, (foot + 0.35) / height, 0.14 / width, (2 * tall + 0.5) / height)
    )
    _curves(figure, outcome, (margin / width, 0.5 / height, (width - margin - 1.05) / width, (foot - 0.75) / height))
    figure.text(margin / width, 1 - 0.42 / height, f"A tsunami over {outcome.place()}", fontsize=18, fontweight="bold")
    figure.text(margin / width, 1 - 0.70 / height, _subtitle(outcome), fontsize=10.5, color="#5c6675")
    figure.savefig(path, dpi=110)


def _subtitle(outcome: Outcome) -> str:
    ranks = f"{outcome.ranks} rank{'s' if outcome.ranks > 1 else ''} on the {outcome.device} device"
    return (
        f"{outcome.rows} x {outcome.columns} cells, {outcome.steps:,} steps in {outcome.wall_s:.1f} s, {ranks}, "
        "one halo plan a step"
    )


def _panel(axis: Any, outcome: Outcome, image: Any, number: int) -> None:
    sea = outcome.sea
    scale = 1.0 if sea.geographic else 1000.0
    extent = tuple(edge / scale for edge in sea.edges)
    axis.imshow(image, extent=extent, aspect="auto", interpolation="bilinear")
    rows, columns = max(1, sea.rows // 300), max(1, sea.columns // 300)
    axis.contour(
        sea.x[::columns] / scale,
        sea.y[::rows] / scale,
        sea.elevation[::rows, ::columns],
        [0.0],
        colors="#2a2f36",
        linewidths=0.6,
    )
    for k, gauge in enumerate(outcome.gauges):
        axis.plot(gauge.x / scale, gauge.y / scale, "o", ms=6, mfc=_GAUGES[k % 4], mec="white", mew=1)
    axis.plot(outcome.source[0] / scale, outcome.source[1] / scale, "+", ms=9, color="#111", mew=1.4)
    axis.set_xlim(extent[0], extent[1])
    axis.set_ylim(extent[2], extent[3])
    axis.tick_params(labelsize=8, colors="#5c6675", length=3)
    x, y = axis.get_xticks(), axis.get_yticks()
    if sea.geographic:
        axis.set_xticks(x, [f"{abs(v):g}°{'W' if v < 0 else 'E'}" for v in x])
        axis.set_yticks(y, [f"{abs(v):g}°{'S' if v < 0 else 'N'}" for v in y])
        axis.set_xlim(extent[0], extent[1])
        axis.set_ylim(extent[2], extent[3])
    axis.tick_params(labelbottom=number >= 3, labelleft=number % 3 == 0)
    for spine in axis.spines.values():
        spine.set_color("#b8b5aa")


def _colour_bar(figure: Any, limit: float, box: tuple[float, float, float, float]) -> None:
    axis = figure.add_axes(box)
    axis.imshow(raster.wave_colours()[::-1, None] / 255, aspect="auto", extent=(0, 1, -1, 1))
    values = raster.ticks(limit)
    axis.set_xticks([])
    axis.yaxis.tick_right()
    axis.set_yticks([float(raster.signed_root(v, limit)) for v in values], [f"{v:+g}" if v else "0" for v in values])
    axis.tick_params(labelsize=9, colors="#5c6675", length=3)
    axis.set_title("m", fontsize=9, color="#5c6675", pad=4)
    for spine in axis.spines.values():
        spine.set_visible(False)


def _curves(figure: Any, outcome: Outcome, box: tuple[float, float, float, float]) -> None:
    count = max(1, len(outcome.gauges))
    left, bottom, width, height = box
    each = (width - 0.02 * (count - 1) * 2) / count
    for k, gauge in enumerate(outcome.gauges):
        axis = figure.add_axes((left + k * (each + 0.04), bottom, each, height))
        series = outcome.series[k]
        keep = svg.extremes(series, 900)
        axis.axhline(0, color="#b8b5aa", lw=0.6)
        axis.plot((keep + 1) * outcome.time_step_s / 3600, series[keep], color=_GAUGES[k % 4], lw=1.1)
        axis.set_xlim(0, outcome.hours)
        axis.set_title(f"{gauge.name}: water level, m", fontsize=10, loc="left", pad=4, fontweight="bold")
        axis.set_xticks(np.arange(0, outcome.hours + 1e-9, 1.0 if outcome.hours > 1.5 else 0.25))
        axis.tick_params(labelsize=8, colors="#5c6675", length=3)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g} h")
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axis.spines[side].set_color("#b8b5aa")
