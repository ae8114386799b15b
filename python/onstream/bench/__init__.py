"""`onstream bench`: measures on this machine, beside other libraries where they can be had.

Reading order: cases.py (what is measured), samples.py (the statistics, in full), message.py (the driver), programs.py
and peers.py (what is started), bars.py (what the figures must reach), table.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .cases import MEMORIES, MODES, SUBMISSIONS, WINDOW, bytes_from, choices_from

bench_app = typer.Typer(help="Measures on this machine.", no_args_is_help=True)


@bench_app.callback()
def _bench() -> None:
    """Measures on this machine."""


@bench_app.command("message")
def message_command(
    device: Annotated[str, typer.Option(help="host or cuda.")] = "host",
    sizes: Annotated[str, typer.Option(help="Such as 8,64KiB,1MiB. Default: a list for the device.")] = "",
    modes: Annotated[str, typer.Option(help="Of ping-pong, pipelined, bidirectional.")] = ",".join(MODES),
    submissions: Annotated[
        str, typer.Option(help="Of host (the host waits), eager (on a stream), captured (in a graph).")
    ] = ",".join(SUBMISSIONS),
    memory: Annotated[
        str, typer.Option(help="Of device, pinned, host (plain). Default: device,host on host, device on cuda.")
    ] = "",
    path: Annotated[str, typer.Option(help="auto, ll, store, load, copy or stage.")] = "auto",
    rounds: Annotated[int, typer.Option(help="Starts of each program; they alternate.")] = 5,
    samples: Annotated[int, typer.Option(help="Samples of each case in a round.")] = 10,
    window: Annotated[int, typer.Option(help="Messages in flight, where the mode has several.")] = WINDOW,
    peers: Annotated[
        str, typer.Option(help="Of openmpi, mpich; none; auto takes those that can be installed (host only).")
    ] = "auto",
    threads: Annotated[bool, typer.Option(help="Ranks as two threads of one process.")] = False,
    quick: Annotated[bool, typer.Option(help="A tenth of the messages, 1 round: shows that it works.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Writes the whole result there.")] = None,
) -> None:
    """Times messages between two ranks: latency, bandwidth, message rate; eager and captured.

    Peers (Open MPI, MPICH) run the same cases in the same call, alternating with onstream.
    """
    from . import message, table

    settings = message.Settings(
        device=device,
        modes=choices_from(modes, MODES, "--modes"),
        submissions=choices_from(submissions, SUBMISSIONS, "--submissions"),
        sizes=tuple(dict.fromkeys(bytes_from(size) for size in sizes.split(","))) if sizes else (),
        memories=choices_from(memory, MEMORIES, "--memory") if memory else (),
        path=path,
        rounds=1 if quick else rounds,
        samples=min(samples, 3) if quick else samples,
        window=window,
        peers={"auto": None, "none": ()}.get(peers, tuple(peers.split(","))),
        threads=threads,
        quick=quick,
    )
    result = message.measure(settings, say=lambda line: typer.echo(line, err=True))
    if json_file is not None:
        message.write(result, json_file)
    for line in table.lines_of(result):
        typer.echo(line)
    if json_file is not None:
        typer.echo(f"written: {json_file}")
