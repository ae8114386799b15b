"""Every kind of result as text for the terminal; table.py has the messages' own, these are the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import am, applications, bars, collective, one_sided, paths, startup, upc
from .cases import MIB
from .peers import TITLES
from .ping_kernel_pong import WAYS
from .table import (
    SUBMISSION_TITLES,
    lines_of,
    not_run_lines,
    rate_text,
    size_text,
    time_text,
    verdict_lines,
    warnings_of,
    why_missed,
    word_of,
)

NO_BAR = "no bar was stated for this device and this number of ranks"
SETUP_TITLES = {"device_bytes": "device memory of each rank", "start_s": "start-up"}
LARGE = MIB  # from here on a bandwidth says more than a time


def lines_of_any(result: dict[str, Any]) -> list[str]:
    """The table of a result of any kind."""
    heading, *table = KINDS[result["kind"]](result)
    return [heading, *warnings_of(result), *table]


def short_of(result: dict[str, Any]) -> list[str]:
    """The bars of a result and the figures reached, or the few lines that sum it up."""
    if result["kind"] == "message":
        return [f"-- messages, {result['ranks']}", *verdict_lines(result)]
    if result["kind"] == "startup":
        return ["-- start-up", *setup_verdicts(result)]
    if result["kind"] == "paths":
        return [
            "-- paths, the fastest",
            *(f"{a} to {b}: {changes_of(result, (a, b))}" for a, b in paths.pairs_of(result)),
        ]
    return [f"-- {result['kind']}", *lines_of_any(result)[1:]]


def figure(size: int, seconds: float) -> str:
    return time_text(seconds) if size < LARGE else rate_text(size / seconds)


def _paths(result: dict[str, Any]) -> list[str]:
    settings = result["settings"]
    lines = [
        f"{result['device']}, {result['ranks']}; {result['mode']}, {SUBMISSION_TITLES[settings['submission']]}; median "
        f"of {settings['samples']} samples in {settings['rounds']} round(s); * the fastest forced path"
    ]
    for pair in paths.pairs_of(result):
        names = settings["paths"]
        lines += ["", f"{pair[0]} to {pair[1]}", f"{'size':>10} " + " ".join(f"{name:>12}" for name in names)]
        for size, cells in paths.table_of(result, pair).items():
            forced = [seconds for name, seconds in cells.items() if name != "auto"]
            row = [_cell(name, size, cells, min(forced, default=0.0)) for name in names]
            lines.append(f"{size_text(size):>10} " + " ".join(f"{text:>12}" for text in row))
        lines.append(f"fastest: {changes_of(result, pair)}")
        for one in paths.reasons_of(result, pair):
            lines.append(f"no {one['path']} from {size_text(one['from_bytes'])} on: {one['why']}")
    return lines


def changes_of(result: dict[str, Any], pair: tuple[str, str]) -> str:
    changes = [f"from {size_text(size)} {path}" for size, path in paths.crossovers_of(result, pair)]
    return ", ".join(changes) or "none"


def _cell(name: str, size: int, cells: dict[str, float], best_s: float) -> str:
    if name not in cells:
        return "-"
    star = " *" if name != "auto" and cells[name] == best_s else ""
    return figure(size, cells[name]) + star


def _aggregation(result: dict[str, Any]) -> list[str]:
    lines = [
        f"{result['device']}, {result['ranks']}; each operation's share of the time, one way from rank 0 to rank 1",
        f"{'':>10} {'':>40} {'size':>8} {'count':>6} {'one by one':>12} {'all at once':>12} {'gain':>7}",
    ]
    for one in result["gains"]:
        how = SUBMISSION_TITLES[one["submission"]]
        lines.append(
            f"{TITLES[one['who']]:>10} {how:>40} {size_text(one['bytes']):>8} {one['count']:>6} "
            f"{time_text(one['separate_s']):>12} {time_text(one['aggregated_s']):>12} {one['gain']:>6.2f}x"
        )
    return [*lines, *(f"without {TITLES[name]}: {why}" for name, why in result["peers_missing"].items())]


def _startup(result: dict[str, Any]) -> list[str]:
    lines = [
        f"{result['device']}; the device open before, from the last rank's call to the last rank's return",
        f"{'ranks':>6} {'a world':>12} {'the first':>12} {'device memory of each rank':>28} {'and kernels':>12}",
    ]
    for row in result["rows"]:
        held = f"{row['device_bytes'] / MIB:.2f} MiB"
        first = first_held(row)
        lines.append(f"{row['ranks']:>6} {row['start_s']:>10.3f} s {row['first_s']:>10.3f} s {held:>28} {first:>12}")
    return [*lines, *setup_verdicts(result)]


def first_held(row: dict[str, Any]) -> str:
    """Device memory of a process's first world, which brings the code of the kernels."""
    held: int = row.get("first_bytes", 0)
    return f"{held / MIB:.2f} MiB" if held > 0 else "-"


def setup_verdicts(result: dict[str, Any]) -> list[str]:
    lines = [setup_verdict(verdict, result) for verdict in result["verdicts"]]
    return lines + not_run_lines(
        (f"{SETUP_TITLES[bar.quantity]}, world of {bar.ranks}", bars.NO_CASE) for bar in startup.not_run(result)
    )


def setup_verdict(verdict: dict[str, Any], result: dict[str, Any]) -> str:
    word = word_of(verdict, result)
    scale, unit = (MIB, "MiB") if verdict["unit"] == "B" else (1, verdict["unit"])
    return (
        f"{word} {SETUP_TITLES[verdict['quantity']]}, world of {verdict['ranks']}: {verdict['value'] / scale:.3g} {unit} "
        f"(bar: < {verdict['limit'] / scale:g}; peers: {verdict['peer']})"
    )


def _ping_kernel_pong(result: dict[str, Any]) -> list[str]:
    settings = result["settings"]
    wide = max(map(len, WAYS.values()))
    lines = [
        f"{result['device']}, 2 processes; a step is wait, kernel, send on both ranks; {settings['bytes']} B, "
        f"{settings['steps_per_batch']} steps a batch, {settings['batches_inflight']} batches in flight",
        f"{'kernel':>10} {'':>{wide}} {'step':>12} {'gain':>7} {'CPU of the caller':>18} {'of the process':>16}",
    ]
    for row in result["rows"]:
        lines.append(
            f"{row['kernel_us']:>7} us {WAYS[row['way']]:>{wide}} {time_text(row['median_s']):>12} {row['gain']:>6.2f}x "
            f"{time_text(row['thread_cpu_s']):>18} {time_text(row['process_cpu_s']):>16}"
        )
    return lines


def _one_sided(result: dict[str, Any]) -> list[str]:
    settings = result["settings"]
    lines = [
        f"{result['device']}, {result['ranks']} processes; one op one way, median and least of "
        f"{_rounds_text(settings)}{settings['samples']} samples",
        f"{'':>10} {'':>47} {'':>9} {'path':>6} {'size':>8} {'median':>10} {'min':>10} {'bandwidth':>11}",
    ]
    for row in result["rows"]:
        size = row["bytes"]
        rate = rate_text(size / row["median_s"]) if size >= MIB // 16 else ""
        lines.append(
            f"{TITLES.get(row['who'], row['who']):>10} {one_sided.TITLES[row['case']]:>47} {row['submission']:>9} "
            f"{row['path']:>6} {size_text(size) if size else '':>8} {time_text(row['median_s']):>10} "
            f"{time_text(row['min_s']):>10} {rate:>11}"
        )
    return [*lines, "", *one_sided_verdicts(result)]


def _rounds_text(settings: dict[str, Any]) -> str:
    return f"{settings['rounds']} rounds of " if "rounds" in settings else ""


def one_sided_verdicts(result: dict[str, Any]) -> list[str]:
    """The bars and the figures reached; results from before there were bars are judged now."""
    lines = []
    for verdict in result["verdicts"] if "verdicts" in result else one_sided.judge(result):
        word = word_of(verdict, result)
        sign = ">=" if verdict["unit"] == "GB/s" else "<="
        size = f" {size_text(verdict['bytes'])}" if verdict["bytes"] else ""
        text = f"{word} {one_sided.TITLES[verdict['case']]}{size}, {verdict['submission']}: {verdict['value']:.2f} "
        text += f"{verdict['unit']} (bar: {sign} {verdict['limit']:g}{_spread_text(verdict)})"
        if verdict["reference_median_s"]:
            text += f"; {time_text(verdict['median_s'])} against {time_text(verdict['reference_median_s'])}, "
            text += _whose(*verdict["against"])
        if verdict["rounds"] > 1:
            text += f"; in {verdict['rounds_held']} of {verdict['rounds']} rounds"
        lines.append(text + (f"; peers: {verdict['peer']}" if verdict["peer"] else "") + why_missed(verdict))
    lines += not_run_lines((_what_of(bar, case), why) for bar, case, why in one_sided.not_run(result))
    if not lines:
        lines.append(NO_BAR)
    return [*lines, *(f"without {TITLES.get(name, name)}: {why}" for name, why in result["peers_missing"].items())]


def _what_of(bar: one_sided.Bar, case: str) -> str:
    size = f" {size_text(bar.bytes)}" if bar.bytes else ""
    against = f", against {_whose(*bar.against)}" if bar.unit == "x" else ""
    return f"{one_sided.TITLES[case]}{size}, {bar.submission}{against}"


def _whose(who: str, case: str) -> str:
    title = one_sided.TITLES[case]
    return title if who == "onstream" else f"{TITLES.get(who, who)}, {title}"


def _spread_text(verdict: dict[str, Any]) -> str:
    return f", or its spread: {verdict['within']:.3f}" if verdict["within"] > verdict["limit"] else ""


def _am(result: dict[str, Any]) -> list[str]:
    samples = result["settings"]["samples"]
    lines = [
        f"{result['device']}; registered buffers, the host waits; median and least of {samples} samples",
        "",
        "am_put, one way: half of a ping-pong of 2 processes",
        f"{'memory':>10} {'size':>8} {'median':>10} {'min':>10}",
    ]
    for row in result["latency"]:
        times = f"{time_text(row['median_s']):>10} {time_text(row['min_s']):>10}"
        lines.append(f"{row['memory']:>10} {size_text(row['bytes']):>8} {times}")
    lines += ["", f"steps of a message, with clocks{'':>2}" + "".join(f"{title:>16}" for title in am.STEP_TITLES)]
    for row in result["steps"]:
        steps = "".join(f"{time_text(step * 1e-9):>16}" for step in row["steps_ns"])
        lines.append(f"{row['memory']:>10} {size_text(row['bytes']):>8} {'':>13}{steps}")
    lines += ["", f"stencil{'':>4} {'by':>3} {'torus':>8} {'tile':>10} {'a step':>10} {'min':>10}"]
    for row in result["stencil"]:
        times = f"{time_text(row['median_s']):>10} {time_text(row['min_s']):>10}"
        lines.append(f"{row['way']:>11} {row['by']:>3} {row['torus']:>8} {row['nx']:>5}x{row['ny']:<4} {times}")
    return lines


def _collective(result: dict[str, Any]) -> list[str]:
    """Columns of NCCL's tests, one block a library."""
    settings = result["settings"]
    lines = [
        f"{result['device']}, {result['ranks']} processes, {settings['memory']} memory; median of {settings['rounds']} "
        f"rounds of {settings['samples']} samples; {result['onstream']['library']}, {result['onstream']['build_type']} build"
    ]
    who = ""
    for row in result["rows"]:
        if row["who"] != who:
            who = row["who"]
            lines += [
                "",
                f"{collective.TITLES[who]}",
                f"{'size':>10} {'type':>8} {'collective':>15} {'submission':>10} {'time':>10} {'algbw':>11} {'busbw':>11} {'wrong':>6}  how",
            ]
        rates = [rate_text(row[f"{name}_bytes_per_s"]) if row["bytes"] else "-" for name in ("algorithm", "bus")]
        lines.append(
            f"{size_text(row['bytes']):>10} {row['type']:>8} {row['kind']:>15} {row['submission']:>10} "
            f"{time_text(row['median_s']):>10} {rates[0]:>11} {rates[1]:>11} {row['wrong']:>6}  {short_how(row['how'])}"
        )
    return [*lines, "", *collective_verdicts(result)]


def short_how(how: str) -> str:
    """The algorithm alone."""
    return how.rpartition(": ")[2].partition(" ")[0].rstrip(",")


def collective_verdicts(result: dict[str, Any]) -> list[str]:
    lines = []
    for verdict in result["verdicts"]:
        word = word_of(verdict, result)
        sign = ">=" if verdict["unit"] == "GB/s" else "<="
        text = f"{word} {verdict['kind']} {size_text(verdict['bytes'])} {verdict['type']}, {verdict['submission']}: "
        text += f"{verdict['value']:.2f} {verdict['unit']} (bar: {sign} {verdict['limit']:g})"
        if verdict["against"]:
            peer = f"{collective.TITLES[verdict['against']]} {time_text(verdict['peer_median_s'])}"
            text += f"; onstream {time_text(verdict['median_s'])}, {peer}"
        lines.append(text + (f"; peers: {verdict['peer']}" if verdict["peer"] else ""))
    lines += not_run_lines(
        (f"{bar.kind} {size_text(bar.bytes)} {bar.type}, {bar.submission}", why)
        for bar, why in collective.not_run(result)
    )
    if not lines:
        lines.append(NO_BAR)
    for one in result.get("cases_missing", []):
        case = f"{one['kind']} {size_text(one['bytes'])} {one['type']}, {one['submission']}"
        lines.append(f"{collective.TITLES[one['who']]} without {case}: {one['why']}")
    return [*lines, *(f"without {collective.TITLES[name]}: {why}" for name, why in result["peers_missing"].items())]


def _upc(result: dict[str, Any]) -> list[str]:
    """Naive and onstream side by side, one line a case and size. The gain in a quick run says nothing."""
    quick = result["settings"].get("quick", False)
    head = f"{'':>40} {'':>7} {'threads':>8} {'path':>6} {'size':>12} {'naive':>10} {'onstream':>10}"
    lines = [
        f"{result['device']}, {result['device_kind']} device memory; the host waits for each call; median of "
        f"{result['settings']['samples']} samples",
        head if quick else f"{head} {'gain':>7}",
    ]
    gains = {(one["case"], one["bytes"], one["path"]): one["gain"] for one in result["gains"]}
    for row in result["rows"]:
        if row["way"] == "naive":
            continue  # beside the other
        key = (row["case"], row["bytes"], row["path"])
        gain = gains.get(key)
        naive = time_text(row["median_s"] * gain) if gain and row["way"] == "onstream" else ""
        what = upc.TITLES[row["case"]]
        size = f"{row['size']} x {row['size']}" if row["case"] == "matmul" else size_text(row["bytes"])
        note = "alone" if row["way"] == "local" else ""
        text = f"{what:>40} {note:>7} {row['threads']:>8} {row['path']:>6} {size:>12} {naive:>10} "
        text += f"{time_text(row['median_s']):>10}"
        lines.append(text if quick else f"{text} {f'{gain:.2f}x' if naive and gain else '':>7}")
    return lines


KINDS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "message": lines_of,
    "paths": _paths,
    "aggregation": _aggregation,
    "startup": _startup,
    "ping-kernel-pong": _ping_kernel_pong,
    "one_sided": _one_sided,
    "collective": _collective,
    "am": _am,
    "upc": _upc,
    "programs": lambda result: list(applications.lines_of(result)),
}
