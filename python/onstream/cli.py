"""The `onstream` command: run | demo | bench | rings | info.

Each command is a few lines that call the part which does the work; nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from . import __version__, launcher
from .errors import Error
from .launcher import standard

try:
    import typer
except ImportError as error:
    raise SystemExit(
        f"the onstream command needs typer and rich ({error}); python -m pip install typer rich, or the extra: pip install '.[cli]'. "
        "Without them: python -m onstream.launcher -n 4 PROGRAM..., and python -m onstream.info"
    ) from error

from .bench import bench_app

app = typer.Typer(
    name="onstream",
    help="Communication as one more operation on a GPU stream.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.add_typer(bench_app, name="bench")

# The files that --bathymetry takes; demo/bathymetry.py reads them.
BATHYMETRY_FILES = (
    "Elevations in metres, negative under water. .npz: a 2-dimensional array topo, elevation, z, bathymetry or height, "
    "with longitude (lon, x) and latitude (lat, y) in degrees, or with cell_m, the metres from point to point; "
    ".npy: the array alone, 2000 m from point to point; "
    ".png: grey levels, black 5000 m below the surface, mid grey at it, white 5000 m above, 2000 m from point to point."
)


SEVERAL_HOSTS = "Several hosts"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"onstream {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Communication as one more operation on a GPU stream."""


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
    no_args_is_help=True,
)
def run(
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENTS]...", help="What every rank runs.")],
    ranks: Annotated[
        int | None, typer.Option("-n", "--ranks", min=1, help="How many ranks. Default: 1, or all slots of the hosts.")
    ] = None,
    prefix: Annotated[bool, typer.Option(help="Put the rank before each line of output.")] = True,
    grace_s: Annotated[
        float, typer.Option(min=0.0, help="Seconds that the other ranks get to end when one has failed.")
    ] = 5.0,
    timeout_s: Annotated[float | None, typer.Option(min=0.0, help="Seconds after which the job is ended.")] = None,
    hosts: Annotated[
        str | None, typer.Option(metavar="NAME[:SLOTS],...", help=launcher.HELP["hosts"], rich_help_panel=SEVERAL_HOSTS)
    ] = None,
    hostfile: Annotated[
        Path | None, typer.Option(metavar="FILE", help=launcher.HELP["hostfile"], rich_help_panel=SEVERAL_HOSTS)
    ] = None,
    ssh: Annotated[
        str, typer.Option(metavar="COMMAND", help=launcher.HELP["ssh"], rich_help_panel=SEVERAL_HOSTS)
    ] = "ssh",
    python: Annotated[
        str,
        typer.Option(metavar="PATH", help=launcher.HELP["python"], rich_help_panel=SEVERAL_HOSTS, show_default=False),
    ] = sys.executable,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help=launcher.HELP["address"], rich_help_panel=SEVERAL_HOSTS)
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=VALUE]", help=launcher.HELP["env"], rich_help_panel=SEVERAL_HOSTS),
    ] = None,
) -> None:
    """Runs a program as several ranks on this host, or on several, with their output and their signals.

    When a rank fails, the others are ended and its error is the last thing on the screen. The programs of this
    Python, `python` among them, are found first.

    Rank 0 alone reads standard input: of `run -n 2 python -` it alone has the program. At a terminal it gets, by a pipe,
    each line that is typed, and Ctrl-D is the end. Other descriptors that the command was started with, such as those of
    `<(...)`, all ranks have.

    Signals go to all ranks. Ctrl-Z stops them too, and no time counts until they are continued. Ranks ignore
    the signals that the command's caller ignores, as under nohup; but SIGPIPE and SIGXFSZ, which Python hides, are as usual.

    The ranks of a host share its cores: OMP_NUM_THREADS, which OpenMP, numpy and torch obey, is so many for each, unless
    it is set.

    A line of more than 16 MiB is cut, which it says. When standard output cannot be written, the job is ended.

    Other hosts are reached by ssh, which must ask for nothing, and have onstream at the same path (docs/hosts.md).
    """
    try:
        places = launcher.hosts.asked_for(hosts, hostfile, ranks)
        given, names = launcher.variables(env or [])
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    code = launcher.run(
        sum(place.count for place in places) or ranks or 1,
        command,
        output="prefixed" if prefix else "own",
        env=given,
        grace_s=grace_s,
        timeout_s=timeout_s,
        descriptors=(0, *standard.inherited()),
        places=places,
        way=launcher.hosts.Way(ssh, python, address, names),
    )
    raise typer.Exit(code)


@app.command()
def demo(
    ranks: Annotated[
        int | None, typer.Option("-n", "--ranks", help="How many ranks. Default: one a GPU, else 4.")
    ] = None,
    grid: Annotated[
        str, typer.Option(metavar="ROWSxCOLUMNS", help="Cells, such as 720x960. Default: by the map.")
    ] = "",
    steps: Annotated[int | None, typer.Option(help="Time steps; wins over --hours.")] = None,
    hours: Annotated[
        float | None, typer.Option(help="Hours of the sea. Default: until the wave has crossed it.")
    ] = None,
    bathymetry: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"Sea floor. {BATHYMETRY_FILES} Default: a real one.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, host or cuda.")] = "auto",
    ranks_per_gpu: Annotated[int, typer.Option(help="Ranks that share a GPU.")] = 1,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the page and the picture go.")] = Path("out/demo"),
    source: Annotated[str, typer.Option(metavar="LON,LAT", help="Where the wave starts. Default: chosen.")] = "",
    gauge: Annotated[
        list[str] | None, typer.Option(metavar="LON,LAT", help="A tide gauge; repeat it for more.")
    ] = None,
    capture: Annotated[bool, typer.Option(help="Replay the step as a captured graph.")] = True,
    check: Annotated[bool, typer.Option(help="Compare with a run of one rank.")] = True,
) -> None:
    """Computes a tsunami over real sea floor on several ranks, and writes a page to look at."""
    from .demo import run_demo

    raise typer.Exit(
        run_demo(
            ranks=ranks,
            grid=_grid(grid),
            steps=steps,
            hours=hours,
            bathymetry=bathymetry,
            device=device,
            ranks_per_gpu=ranks_per_gpu,
            out=out,
            source=_point(source, "--source") if source else None,
            gauges=[_point(text, "--gauge") for text in gauge or []],
            capture=capture,
            check=check,
        )
    )


def _grid(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    rows, _, columns = text.partition("x")
    if not (rows.isdigit() and columns.isdigit()):
        raise typer.BadParameter(f"--grid {text} is not ROWSxCOLUMNS, such as 720x960")
    return int(rows), int(columns)


def _point(text: str, option: str) -> tuple[float, float]:
    try:
        longitude, latitude = (float(number) for number in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"{option} {text} is not LON,LAT, such as -74.5,38.2") from error
    return longitude, latitude


@app.command()
def rings(
    machine: Annotated[str, typer.Argument(help="A file, or the name of a machine that comes with onstream.")],
) -> None:
    """Finds edge-disjoint rings over a machine's links, and prints them.

    A description has lines `gpus 8`, `switch NAME...`, `link A B [COUNT]`, or `torus X Y Z`.
    """
    from . import _core, topology

    print(_core.describe_rings(topology.description_of(machine)))


@app.command()
def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON instead of tables.")] = False,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="Show every parameter with its value and who set it.")
    ] = False,
    paths: Annotated[
        bool, typer.Option("--paths", help="Print only the rules by which paths and algorithms are taken.")
    ] = False,
) -> None:
    """Shows devices, peer access, paths, the launcher and the parameters that are set, or with --parameters all."""
    from . import info as facts

    if paths:
        from . import _core

        print(_core.paths(), end="")
        return
    collected = facts.collect()
    if as_json:
        print(json.dumps(collected, indent=2))
        return
    try:
        from rich.console import Console
    except ImportError as error:
        raise typer.BadParameter(f"the tables need rich ({error}); pip install rich, or use --json") from error
    console = Console()
    if not console.is_terminal:
        console = Console(width=facts.WIDTH_OF_A_PIPE)
    facts.render(collected, console, all_parameters=parameters)


def main() -> int:
    """The entry point: an error of onstream is a message, not a traceback, and so is an output that cannot be written."""
    with standard.guarded("onstream"):
        try:
            app()
        except Error as error:
            print(f"onstream: {error}", file=sys.stderr)
            return 1
    return 0
