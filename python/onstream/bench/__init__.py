"""`onstream bench`: measures on this machine, beside other libraries where they can be had.

Reading order: cases.py (what is measured), samples.py (the statistics, in full), message.py (the driver), programs.py
and peers.py (what is started), bars.py (what the figures must reach), table.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .cases import MEMORIES, MODES, SUBMISSIONS, WINDOW, choices_from, sizes_from

bench_app = typer.Typer(help="Measures on this machine.", no_args_is_help=True)


@bench_app.callback()
def _bench() -> None:
    """Measures on this machine."""


@bench_app.command("message")
def message_command(
    device: Annotated[str, typer.Option(help="host or cuda.")] = "host",
    ranks: Annotated[int, typer.Option("-n", "--ranks", help="Two, or any number for the rings.")] = 2,
    sizes: Annotated[
        str, typer.Option(help="Such as 8,64KiB,1MiB; or sweep: 1 B to 1 GiB. Default: a list for the device.")
    ] = "",
    modes: Annotated[str, typer.Option(help=f"Of {', '.join(MODES)}. Default: all but separate.")] = "",
    submissions: Annotated[
        str, typer.Option(help="Of host (the host waits), eager (on a stream), captured (in a graph).")
    ] = ",".join(SUBMISSIONS),
    memory: Annotated[
        str,
        typer.Option(help="Of device, pinned, managed, host (plain). Default: device,host on host, device on cuda."),
    ] = "",
    path: Annotated[str, typer.Option(help="auto, ll, store, load, copy or stage.")] = "auto",
    max_blocks: Annotated[int | None, typer.Option(help="Caps the thread blocks of a bulk operation.")] = None,
    rounds: Annotated[int, typer.Option(help="Starts of each program; they alternate.")] = 5,
    samples: Annotated[int, typer.Option(help="Samples of each case in a round.")] = 10,
    window: Annotated[int, typer.Option(help="Messages in flight, where the mode has several.")] = WINDOW,
    vs: Annotated[
        str,
        typer.Option(help="Peers in the same run: of nccl, nvshmem, mpi, openmpi, mpich; auto: all; none."),
    ] = "auto",
    threads: Annotated[bool, typer.Option(help="Ranks as two threads of one process.")] = False,
    quick: Annotated[bool, typer.Option(help="A tenth of the messages, 1 round: shows that it works.")] = False,
    headline: Annotated[bool, typer.Option(help="Only the cases that a bar was stated for.")] = False,
    limit_s: Annotated[float, typer.Option(help="Seconds that one start of a program may take.")] = 540.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Writes the whole result there.")] = None,
) -> None:
    """Times messages between ranks: latency, bandwidth, message rate; eager and captured.

    Peers run the same cases in the same call, alternating with onstream. A peer that is not here is named with the
    reason.
    """
    from . import message, peers, table

    settings = message.Settings(
        device=device,
        ranks=ranks,
        modes=choices_from(modes, MODES, "--modes") if modes else (),
        submissions=choices_from(submissions, SUBMISSIONS, "--submissions"),
        sizes=sizes_from(sizes, device),
        memories=choices_from(memory, MEMORIES, "--memory") if memory else (),
        path=path,
        max_blocks=max_blocks,
        rounds=1 if quick else rounds,
        samples=min(samples, 3) if quick else samples,
        window=window,
        vs=peers.names_from(vs, device),
        threads=threads,
        quick=quick,
        headline=headline,
        limit_s=limit_s,
    )
    result = message.measure(settings, say=lambda line: typer.echo(line, err=True))
    if json_file is not None:
        message.write(result, json_file)
    for line in table.lines_of(result):
        typer.echo(line)
    if json_file is not None:
        typer.echo(f"written: {json_file}")
