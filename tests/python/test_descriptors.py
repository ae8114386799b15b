"""Programs that have closed standard input, output or error: no descriptor of the library gets the number of one."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import run_job

PROGRAM = """
    import os
    import sys
    import numpy as np
    import onstream as ons

    answer = open("said." + os.environ["ONSTREAM_RANK"], "w")
    closed = CLOSED
    for fd in closed:
        try:
            os.close(fd)
        except OSError:
            pass  # born without it

    def is_ours(fd):
        try:
            os.write(fd, b"a line of the program's own")  # as printf does, or any library that logs
        except OSError:
            pass
        return os.path.exists(f"/proc/self/fd/{fd}")

    world = ons.init(device="host", timeout_s=30)
    peer = 1 - world.rank
    taken = [fd for fd in closed if is_ours(fd)]
    right = []
    for count in (1, 1000, 300_000):
        mine, came = np.full(count, world.rank + 1.0), np.zeros(count)
        world.sendrecv(mine, peer, came, peer)
        world.sync()
        right.append(bool(came[-1] == peer + 1 and world.all_reduce(mine)[-1] == 3))
    segment = world.segment(1 << 20)
    window = world.empty(1000)
    world.sendrecv(window, peer, world.empty(1000), peer)
    world.sync()
    taken += [fd for fd in closed if is_ours(fd)]
    world.close()
    print(right, taken, file=answer, flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("closed", [[0], [1], [2], [1, 2], [0, 1, 2]])
def test_the_standard_descriptors_are_never_the_librarys(closed: list[int], tmp_path: Path) -> None:
    outcome = run_job(tmp_path, 2, PROGRAM.replace("CLOSED", repr(closed)))
    assert outcome.code == 0, outcome.err
    said = [(tmp_path / f"said.{rank}").read_text().strip() for rank in range(2)]
    assert said == ["[True, True, True] []"] * 2


# The program is born without them: the first files that the interpreter opens get their numbers.
def test_a_program_that_is_born_without_them_communicates(tmp_path: Path) -> None:
    script = tmp_path / "closed.py"
    program = PROGRAM.replace("CLOSED", "[1, 2]")
    outcome = run_job(
        tmp_path,
        2,
        f"""
        import os, sys, textwrap
        for fd in (0, 1, 2):
            os.close(fd)
        with open({str(script)!r} + os.environ["ONSTREAM_RANK"], "w") as out:
            out.write(textwrap.dedent({program!r}))
        os.execv(sys.executable, [sys.executable, out.name])
        """,
    )
    assert outcome.code == 0, outcome.err
    said = [(tmp_path / f"said.{rank}").read_text().strip() for rank in range(2)]
    assert said == ["[True, True, True] []"] * 2
