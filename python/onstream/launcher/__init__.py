"""`onstream run`: the ranks of a job on this host and others, with their output, their signals and one exit code.

Every rank is a process in a process group of its own (rank.py). On one host ranks meet at an abstract socket name, so no port
is taken and no file is left. Output goes out by whole lines (relay.py); signals go to all ranks (signals.py); when a rank
fails, the job ends (job.py). Other hosts (hosts.py) have an agent each (remote.py, agent.py). Ranks find the programs of this
interpreter first on PATH. Needs nothing but the standard library: python -m onstream.launcher -n 4 PROGRAM...
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from . import hosts, signals, standard
from .hosts import HostError, Place, Way
from .job import Given, Job
from .remote import CODE_LOST, RefusedError

CODE_NOT_EXECUTABLE = 126
CODE_NOT_FOUND = 127

HELP = {  # of the options of several hosts, which two commands have
    "hosts": "The hosts, and how many ranks each has room for: a:2,b:2.",
    "hostfile": "A file with a line 'NAME slots=2' for each host.",
    "ssh": "Reaches another host: it gets the host and a command.",
    "python": "The Python that has onstream on other hosts. Default: the path of this one.",
    "address": "Where other hosts reach the first. Default: found.",
    "env": "A variable that all ranks get. ONSTREAM_*, UCX_*, MASTER_ADDR and MASTER_PORT go along anyway.",
}


def run(
    size: int,
    command: list[str],
    *,
    output: str = "prefixed",
    env: dict[str, str] | None = None,
    grace_s: float = 5.0,
    timeout_s: float | None = None,
    called: str = "onstream run",
    descriptors: Sequence[int] = (),
    places: Sequence[Place] = (),
    way: Way | None = None,
) -> int:
    """Runs `command` as `size` ranks, blocks until all have ended, and returns the job's exit code.

    0 if every rank returned 0, else the code of the rank that failed first (128 + number for a signal), 124 after
    timeout_s, 126 or 127 if the program cannot be started. `env` is added to this process's environment.
    output: "prefixed", every line with its rank; "relayed", as it is, but through us, so that the job ends if its reader
    does; "own", standard output is the ranks' own. Signals are forwarded when called from the main thread. The
    launcher's own lines begin with `called`. descriptors: those of this process that the ranks get, 0 for rank 0 alone;
    without it nobody reads standard input. places: the hosts of the ranks (hosts.placed()), which `way` leads to; without
    them all are here. 255 if a host cannot be used, or is lost with its ranks.
    """
    if size < 1:
        raise ValueError(f"a job of {size} ranks cannot run; ask for 1 or more")
    if not command:
        raise ValueError("no program to run")
    job = Job(size, grace_s, timeout_s, called)
    with signals.answered(job.forward, job.stop):
        try:
            try:
                job.start(
                    Given(command, env or {}, output, descriptors), places or [Place("", 0, size, True)], way or Way()
                )
            except OSError as error:
                return _refuse(job, _cannot_start(command[0], size, error), error)
            return job.attend()
        except RefusedError as refused:
            told = f"cannot start '{command[0]}' on host {refused.host}: {refused.error.strerror}"
            return _refuse(job, told, refused.error)
        except HostError as error:
            job.kill_all()
            job.say(str(error))
            return CODE_LOST
        finally:
            job.kill_all()


def _refuse(job: Job, told: str, error: OSError) -> int:
    job.kill_all()
    job.say(told)
    return CODE_NOT_FOUND if isinstance(error, FileNotFoundError) else CODE_NOT_EXECUTABLE


def variables(named: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Of --env NAME[=VALUE]: those that have a value, and the names of those that this process's environment has. Throws
    ValueError."""
    given, names = {}, []
    for one in named:
        name, equals, value = one.partition("=")
        if not name:
            raise ValueError(f"'{one}' names no variable")
        if equals:
            given[name] = value
        elif name in os.environ:
            names.append(name)
        else:
            raise ValueError(f"{name} is not set here; give it a value: {name}=VALUE")
    return given, names


def _cannot_start(program: str, size: int, error: OSError) -> str:
    text = f"cannot start '{program}': {error.strerror}"
    if program.endswith(".py") and Path(program).is_file():
        return f"{text}: it is a Python script: onstream run -n {size} python {program}"
    if "/" not in program and Path(program).is_file():
        return f"{text} on the PATH; the one in this folder is ./{program}"
    return text


def main(arguments: list[str] | None = None) -> int:
    with standard.guarded("onstream run"):
        return _main(arguments)


def _main(arguments: list[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m onstream.launcher",
        description="Runs a program as several ranks, of which rank 0 alone reads standard input.",
    )
    parser.add_argument("-n", "--ranks", type=int, help="how many ranks; default: 1, or all slots of the hosts")
    parser.add_argument("--no-prefix", dest="prefix", action="store_false", help="do not put the rank before each line")
    parser.add_argument("--grace-s", type=float, default=5.0, help="seconds for the other ranks when one has failed")
    parser.add_argument("--timeout-s", type=float, help="seconds after which the job is ended")
    parser.add_argument("--hosts", help=HELP["hosts"], metavar="NAME[:SLOTS],...")
    parser.add_argument("--hostfile", type=Path, help=HELP["hostfile"], metavar="FILE")
    parser.add_argument("--ssh", default="ssh", help=HELP["ssh"], metavar="COMMAND")
    parser.add_argument("--python", default=sys.executable, help=HELP["python"], metavar="PATH")
    parser.add_argument("--address", default="", help=HELP["address"])
    parser.add_argument("--env", action="append", default=[], help=HELP["env"], metavar="NAME[=VALUE]")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help="what every rank runs")
    options = parser.parse_args(arguments)
    if (options.ranks is not None and options.ranks < 1) or not options.command:
        parser.error("needs a number of ranks from 1 on and a program")
    try:
        places = hosts.asked_for(options.hosts, options.hostfile, options.ranks)
        env, names = variables(options.env)
    except ValueError as error:
        parser.error(str(error))
    return run(
        sum(place.count for place in places) or options.ranks or 1,
        options.command,
        output="prefixed" if options.prefix else "own",
        env=env,
        grace_s=options.grace_s,
        timeout_s=options.timeout_s,
        descriptors=(0, *standard.inherited()),
        places=places,
        way=Way(options.ssh, options.python, options.address, names),
    )
