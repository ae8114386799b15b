"""The pages of docs/ and README: their length, and each call, header and program that they name is there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from jobs import Outcome, run_job

import onstream as ons
from onstream import plans

DOCS = ROOT / "docs"
LONG = {"parameters.md"}  # generated tables; so are the pages of docs/figures, and decisions are records
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name not in ("figures", "decisions")]
GUIDES = sorted((DOCS / "coming_from").glob("*.md"))
REFERENCE = "".join(page.read_text() for page in sorted((DOCS / "python").glob("*.md")))
HEADERS = "".join(header.read_text() for header in sorted((ROOT / "include" / "onstream").glob("*.hpp")))
# The variables of the pages' calls, and their classes.
OWNERS = {
    "ons": ons, "world": ons.World, "team": ons.Team, "grid": ons.Cartesian, "hood": ons.Neighbourhood,
    "request": ons.Request, "message": ons.Message, "handle": ons.Handle, "builder": plans.PlanBuilder, "plan": plans.Plan,
    "segment": ons.Segment, "heap": ons.Heap, "symmetric": ons.SymmetricArray, "context": ons.Context, "step": ons.Graph,
}  # fmt: skip
OF_WORLD = {"start": ons.World, "explain": ons.World, "launch": ons.Launch}  # properties with methods of their own


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in LONG], ids=page_id)
def test_a_page_has_at_most_1200_words(page: Path) -> None:
    assert len(page.read_text().split()) <= 1200


def test_readme_has_at_most_600_words() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 600


def test_readmes_program_is_the_example_and_prints_its_neighbours(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code == (ROOT / "examples" / "first.py").read_text()
    lines = sorted(run(tmp_path, "first.py").out.splitlines())
    assert lines == [
        f"[{rank}] rank {rank} of 4: {(rank - 1) % 4} | {rank} | {(rank + 1) % 4}; total 48" for rank in range(4)
    ]


def run(folder: Path, name: str, *options: str) -> Outcome:
    """Runs an example as four ranks of the host device."""
    text = (ROOT / "examples" / name).read_text()
    return run_job(folder, 4, f"import os\nos.environ['ONSTREAM_DEVICE'] = 'host'\n{text}", options=options)


@pytest.mark.parametrize("name", ["halo", "captured", "gpu"])
def test_steps_2_to_4_of_the_tutorial_print_the_pages_line(name: str, tmp_path: Path) -> None:
    outcome = run(tmp_path, f"tutorial/{name}.py")
    assert outcome.code == 0, outcome.err
    assert outcome.out == "[0] 50 steps: heat 1000.000000, last change 4.312054\n"
    assert outcome.out in (DOCS / "tutorial.md").read_text()


def test_the_tutorials_cut_of_a_global_array_gives_each_rank_its_block(tmp_path: Path) -> None:
    (cut,) = re.findall(r"^```python\n(shape = .*?)^```$", (DOCS / "tutorial.md").read_text(), re.MULTILINE | re.DOTALL)
    check = """
    assert list(grid) == [2, 2]
    halo.launch()
    top, left = row * rows, column * columns
    want = np.pad(whole, 1)[top : top + rows + 2, left : left + columns + 2]
    want[[0, 0, -1, -1], [0, -1, 0, -1]] = 0  # corners
    assert (field == want).all()
"""
    inner = "".join(f"    {line}\n" for line in cut.splitlines())
    whole = "with ons.init(device='host') as world:\n    whole = np.random.default_rng(1).random((1000, 600))\n"
    outcome = run_job(tmp_path, 4, f"import numpy as np\nimport onstream as ons\n{whole}{inner}{check}")
    assert outcome.code == 0, outcome.err


def test_two_arrays_that_are_swapped_have_a_halo_each(tmp_path: Path) -> None:
    outcome = run(tmp_path, "swap.py")
    assert outcome.code == 0, outcome.err
    rod = np.zeros(400)
    rod[0] = 1000.0
    for _ in range(50):
        rod = (np.roll(rod, 1) + 2 * rod + np.roll(rod, -1)) / 4
    assert outcome.out == f"[0] 50 steps: heat {rod.sum():.6f}, first cell {rod[0]:.6f}\n"


def test_the_first_step_of_the_tutorial_prints_the_pages_line(tmp_path: Path) -> None:
    outcome = run(tmp_path, "tutorial/send.py")
    assert outcome.code == 0, outcome.err
    assert outcome.out == "[1] rank 1 received [0.0, 1.0, 2.0, 3.0, 4.0] from rank 0\n"
    assert outcome.out in (DOCS / "tutorial.md").read_text()


def test_the_fifth_step_of_the_tutorial_goes_on_without_the_dead_rank(tmp_path: Path) -> None:
    outcome = run(tmp_path, "tutorial/errors.py", "--grace-s", "inf")
    assert outcome.code == 3, outcome.err  # the code of the rank that died
    told = sorted(outcome.out.splitlines())
    assert told == [f"[{rank}] [3] died; now rank {rank} of 3 goes on" for rank in range(3)]
    last = outcome.err.splitlines()[-1]
    assert "\n".join([*told, last]) in (DOCS / "tutorial.md").read_text()


def test_the_last_step_of_the_tutorial_runs_on_one_host_too(tmp_path: Path) -> None:
    outcome = run(tmp_path, "tutorial/hosts.py")
    assert outcome.code == 0, outcome.err
    first, second = outcome.out.splitlines()
    assert first == "[0] 4 ranks on 1 hosts"
    assert second.startswith("[0] to rank 1, message of 7.812 KiB: ")


def calls(page: Path) -> Iterator[str]:
    """The pieces of code in the cells of a page's tables, without those of the other library."""
    for line in page.read_text().splitlines():
        if line.startswith("| "):
            cells = line.strip("| ").split(" | ")
            for cell in cells[1:] if page.parent.name == "coming_from" else cells:
                yield from re.findall(r"`([^`]+)`", cell)


def missing_in_python(code: str) -> str | None:
    """The name that a call of the page has and the module lacks."""
    found = re.match(r"([a-z]+)\.(\w+)(?:\.(\w+))?", code)
    if found is None or found[1] not in OWNERS:
        return None
    owner, name, further = OWNERS[found[1]], found[2], found[3]
    if not hasattr(owner, name):
        return f"{found[1]}.{name}"
    if further and not hasattr(OF_WORLD[name], further) and further != "send":
        return f"{found[1]}.{name}.{further}"
    return None


@pytest.mark.parametrize("page", [*GUIDES, DOCS / "index.md", DOCS / "messages.md"], ids=page_id)
def test_each_call_of_a_table_exists(page: Path) -> None:
    found = list(calls(page))
    python = [code for code in found if re.match(r"(ons|world)\.", code)]
    assert len(python) >= 4
    assert [name for code in found if (name := missing_in_python(code))] == []


@pytest.mark.parametrize("page", GUIDES, ids=page_id)
def test_each_cpp_call_of_a_guide_is_in_a_public_header(page: Path) -> None:
    for code in calls(page):
        if re.match(r"(ons|onstream|mpirun|dist|torch\w*)\b", code) or missing_in_python(code) or "=" in code:
            continue
        name = re.search(r"(?:->|\.|::|^)(\w+)(?:<\w+>)?[({]", code)
        if name and not re.match(rf"({'|'.join(OWNERS)})\.", code):
            assert re.search(rf"\b{name[1]}\b", HEADERS), f"{page.name}: {code}"


def test_a_wrong_call_in_a_table_would_be_found() -> None:
    assert missing_in_python("world.send(x, peer)") is None
    assert missing_in_python("world.sent(x, peer)") == "world.sent"
    assert missing_in_python("world.start.all_reduced(x)") == "world.start.all_reduced"


def public_names() -> Iterator[str]:
    """Everything public, by the name that the reference has for it."""
    for name in ons.__all__:
        if name == "__version__":
            continue
        yield name
        if isinstance(kind := getattr(ons, name), type) and not issubclass(kind, Exception):
            shared = (
                set(dir(ons.World)) - set(vars(kind)) if name == "Team" else set()
            )  # the pages have them for the world
            members = [member for member in dir(kind) if not member.startswith("_") and member not in shared]
            yield from (f"{name}.{member}" for member in members)


def test_the_python_reference_has_every_public_name() -> None:
    named, whole = set(), set()
    for line, behind in pairwise([*REFERENCE.splitlines(), ""]):
        if found := re.match(r"\.\. auto\w+:: onstream\.([\w.]+)", line):
            named.add(found[1])
            if behind.strip() == ":members:":
                whole.add(found[1])
    assert [name for name in public_names() if name not in named and name.split(".")[0] not in whole] == []
    assert sorted(named - set(public_names())) == []


def test_every_public_name_says_what_it_is() -> None:
    silent = []
    for name in public_names():
        owner, _, member = name.partition(".")
        told = inspect.getattr_static(getattr(ons, owner), member, None) if member else getattr(ons, owner)
        if (callable(told) or isinstance(told, property)) and not (inspect.getdoc(told) or "").strip():
            silent.append(name)
    assert silent == []


# The calls that programs make most; those that are compiled have their sections on the page of messages or of the world.
CALLED_MOST = [
    "init",
    "run_threads",
    "World.empty",
    "World.segment",
    "World.heap",
    "World.team",
    "World.split",
    "World.plan",
    "World.halo",
    "World.call",
    "World.capture",
    "World.wait_all",
    "World.wait_any",
    "World.probe",
    "World.recv_new",
    "World.sendrecv_replace",
    "World.send_object",
    "World.recv_object",
    "World.broadcast_object",
    "World.all_reduce",
    "World.reduce",
    "World.scan",
    "World.reduce_scatter",
    "World.broadcast",
    "World.all_gather",
    "World.gather",
    "World.scatter",
    "World.all_to_all",
    "World.all_gather_v",
    "World.all_to_all_v",
    "World.neighbourhood",
    "PlanBuilder.send",
    "PlanBuilder.recv",
    "Plan.launch",
    "Segment.put",
    "Segment.get",
    "Segment.wait",
    "SymmetricArray.put",
    "SymmetricArray.get",
    "SymmetricArray.atomic",
]
COMPILED = ("send", "recv", "sendrecv", "isend", "irecv", "barrier")


@pytest.mark.parametrize("name", CALLED_MOST)
def test_a_call_tells_each_parameter_its_result_and_its_errors(name: str) -> None:
    owner, _, member = name.partition(".")
    function = getattr(getattr(ons, owner), member) if member else getattr(ons, owner)
    signature = inspect.signature(function)
    sections = dict(re.findall(r"^(\w+)\n-{5,}\n(.*?)(?=\n\w+\n-{5,}\n|\Z)", inspect.getdoc(function), re.S | re.M))
    heads = re.findall(r"^(\S.*?)(?: : .+)?$", sections["Parameters"], re.MULTILINE)
    told = [word.lstrip("*") for head in heads for word in head.split(", ")]
    assert sorted(told) == sorted(one for one in signature.parameters if one != "self")
    assert ("Returns" in sections) == (signature.return_annotation not in (None, "None"))
    assert "Raises" in sections or name == "World.plan"


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_call_has_each_parameter_and_its_errors_on_its_page(name: str) -> None:
    (body,) = re.findall(rf"automethod:: onstream\.World\.{name}\n\n(.*?)(?=\n\n\.\.|\n\n?```)", REFERENCE, re.DOTALL)
    signature = getattr(ons.World, name).__doc__.partition("->")[0]
    parameters = re.findall(r"(\w+): ", signature)
    assert re.findall(r":param (?:\w+ )?(\w+):", body) == parameters
    assert ":raises " in body


def test_the_cpp_reference_has_every_public_header_once() -> None:
    pages = "".join(page.read_text() for page in (DOCS / "cpp").glob("*.md"))
    included = re.findall(r"literalinclude\} ../../include/onstream/(\w+\.hpp)", pages)
    assert sorted(included) == sorted(header.name for header in (ROOT / "include" / "onstream").glob("*.hpp"))


def test_every_page_stands_in_the_index_of_pages() -> None:
    listed = set()
    for page in sorted(DOCS.rglob("*.md")):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            listed |= {(page.parent / f"{line}.md").resolve() for line in tree.split() if not line.startswith(":")}
    decisions = set((DOCS / "decisions").glob("0*.md"))
    assert sorted(set(DOCS.rglob("*.md")) - listed - decisions) == [DOCS / "index.md"]
