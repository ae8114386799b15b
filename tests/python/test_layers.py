"""Includes and imports go down the layers, and some includes and calls stay where tests/layers.toml says."""

from __future__ import annotations

import ast
import fnmatch
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
RULES: dict[str, Any] = tomllib.loads((ROOT / "tests" / "layers.toml").read_text())
SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".inc"}
HEIGHT = {layer: height for height, line in enumerate(RULES["order"]) for layer in line}
PACKAGE = ROOT / "python" / "onstream"
PUBLIC: dict[str, str] = RULES["public"]  # header of include/onstream: its layer
MODULE_HEIGHT = {module: height for height, line in enumerate(RULES["python"]) for module in line}


def sources() -> list[Path]:
    folders = [
        ROOT / "include" / "onstream",
        ROOT / "src" / "onstream",
        *(ROOT / part for part in RULES["parts"].values()),
    ]
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in SUFFIXES]
    return sorted(file.relative_to(ROOT) for file in files)


def layer_of(file: Path) -> str:
    """The layer that a source file belongs to."""
    for layer, folder in RULES["parts"].items():
        if file.is_relative_to(folder):
            return str(layer)
    if file.is_relative_to("include"):
        return PUBLIC.get(file.stem, "base")  # parameter_table.inc is no header: part of one of the lowest layer
    return file.parts[2]


def is_public(include: str) -> bool:
    return include.startswith("onstream/") and include.count("/") == 1


def included_layer(include: str) -> str | None:
    """The layer that an include reaches, None for the world outside."""
    parts = include.split("/")
    if parts[0] != "onstream":
        return None
    return layer_of(Path("include", include)) if is_public(include) else parts[1]


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def includes_of(text: str) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', text, re.MULTILINE)


def unclear_includes(file: Path, text: str) -> list[str]:
    """Includes that do not say from where they come: relative ones, and in the library all that name no layer."""
    quoted = re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE)
    wrong = [f"{file} includes {include}: write the whole path" for include in includes_of(text) if ".." in include]
    if file.is_relative_to("src/onstream") or file.is_relative_to("include"):
        wrong += [
            f"{file} includes {include}: write onstream/<layer>/<file>"
            for include in quoted
            if ".." not in include and included_layer(include) is None
        ]
    return wrong


def nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a module except those for types alone; imports within its functions too."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from nodes_that_run(node)


def imported_modules(file: Path, text: str) -> set[str]:
    """The modules of the package that a file of it, python/onstream/..., imports, by their first names."""
    folder = file.parts[2:-1]
    found = set()
    for node in nodes_that_run(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.removeprefix("onstream.") for alias in node.names if alias.name.startswith("onstream.")]
        elif isinstance(node, ast.ImportFrom):
            home = (*folder[: len(folder) - (node.level - 1)],) if node.level > 0 else ()
            path = (*home, *(node.module or "").split(".")) if node.module else home
            if node.level == 0:
                if path[0] != "onstream":
                    continue
                path = path[1:]
            names = [path[0]] if path else [alias.name for alias in node.names]
        found |= {name.split(".")[0] for name in names}
    return found & set(MODULE_HEIGHT)


def upward_imports(file: Path, text: str) -> list[str]:
    own = file.parts[2].removesuffix(".py")
    return [
        f"{file} imports {other}, which lies above it or beside it"
        for other in sorted(imported_modules(file, text) - {own})
        if MODULE_HEIGHT[other] >= MODULE_HEIGHT[own]
    ]


def calls(text: str, name: str) -> bool:
    """Whether the text calls the function: bare or through :: or std::, not as a member; a name with :: as it is."""
    without_strings = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    if name.startswith("::"):
        return re.search(rf"(?<![\w>]){name}\s*\(", without_strings) is not None
    if "::" in name:
        return re.search(rf"\b{name}\s*\(", without_strings) is not None
    pattern = rf"(?:(?<![\w.>:])|(?<![\w>]::)(?<=::)|(?<=std::)){name}\s*\("
    return any(not declares(without_strings, match.start()) for match in re.finditer(pattern, without_strings))


def without_inside(text: str, owner: str) -> str:
    """The text without the names of the system's calls whose results an object of this type takes over: Fd(::call(...))."""
    return re.sub(rf"\b{owner}(\s+\w+)?\(\s*(static_cast<int>\()?::\w+", owner, text)


def declares(text: str, at: int) -> bool:
    """Whether the name at this place follows a type, as in `void abort(`, and so is declared and not called."""
    before = re.search(r"([\w>&*]+)\s+[\w:]*$", text[:at])
    return before is not None and before.group(1) not in {"return", "else", "do", "throw", "co_return"}


def matches(file: Path, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatch(str(file), pattern) for pattern in patterns)


def upward_includes(file: Path, text: str) -> list[str]:
    """The faults in the includes of a file, in words."""
    own = layer_of(file)
    wrong = []
    for include in includes_of(text):
        other = included_layer(include)
        if other is None or other == own:
            continue
        if other not in HEIGHT:
            wrong.append(f"{file} includes {include}, whose layer is not in tests/layers.toml")
        elif HEIGHT[other] == HEIGHT[own]:
            wrong.append(
                f"{file} ({own}) includes {include}: {own} and {other} are families that do not see each other"
            )
        elif HEIGHT[other] > HEIGHT[own]:
            wrong.append(f"{file} ({own}) includes {include}: {other} lies above {own}")
    return wrong


def modules() -> list[Path]:
    ends = {"__init__.py", "__main__.py"}
    return sorted(
        file.relative_to(ROOT) for file in PACKAGE.rglob("*.py") if file.parent != PACKAGE or file.name not in ends
    )


def test_every_module_of_the_package_is_in_the_order() -> None:
    assert {file.parts[2].removesuffix(".py") for file in modules()} == set(MODULE_HEIGHT)


@pytest.mark.parametrize("file", modules(), ids=str)
def test_imports_go_down(file: Path) -> None:
    assert upward_imports(file, (ROOT / file).read_text()) == []


@pytest.mark.parametrize(
    ("file", "text", "wrong"),
    [
        ("heap.py", "from .world import World", ["world"]),
        ("heap.py", "from . import errors, plans", ["plans"]),
        ("heap.py", "from .collectives import Collectives", ["collectives"]),
        ("heap.py", "def f():\n    import onstream.bench.cases", ["bench"]),
        ("heap.py", "from onstream.bench import cases", ["bench"]),
        ("heap.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .world import World", []),
        ("bench/cases.py", "from ..cli import app\nfrom .bars import bar\nfrom ..errors import Error", ["cli"]),
    ],
)
def test_the_check_itself_reads_imports(file: str, text: str, wrong: list[str]) -> None:
    told = upward_imports(Path("python/onstream") / file, text)
    assert [line.split(" imports ")[1].split(",")[0] for line in told] == wrong


def test_every_folder_of_the_library_is_a_layer() -> None:
    folders = {file.parts[2] for file in sources() if file.is_relative_to("src/onstream") and len(file.parts) > 3}
    assert folders <= set(HEIGHT), f"add to tests/layers.toml: {folders - set(HEIGHT)}"


def test_there_are_sources_to_check() -> None:
    assert len(sources()) > 20


@pytest.mark.parametrize("file", sources(), ids=str)
def test_includes_go_down(file: Path) -> None:
    text = without_comments((ROOT / file).read_text())
    assert unclear_includes(file, text) + upward_includes(file, text) == []


@pytest.mark.parametrize("rule", RULES["only"], ids=lambda rule: rule["includes"][0])
def test_an_include_stays_where_it_belongs(rule: dict[str, Any]) -> None:
    wrong = [
        f"{file} includes {include}: {rule['why']}"
        for file in sources()
        for include in includes_of(without_comments((ROOT / file).read_text()))
        if include.startswith(tuple(rule["includes"])) and not matches(file, rule["files"])
    ]
    assert wrong == []


def text_under(rule: dict[str, Any], file: Path) -> str:
    text = without_comments((ROOT / file).read_text())
    return without_inside(text, rule["inside"]) if "inside" in rule else text


@pytest.mark.parametrize("rule", RULES["calls"], ids=lambda rule: rule["names"][0])
def test_a_call_stays_where_it_belongs(rule: dict[str, Any]) -> None:
    wrong = [
        f"{file} calls {name}: {rule['why']}"
        for file in sources()
        if not matches(file, rule["files"])
        for text in [text_under(rule, file)]
        for name in rule["names"]
        if calls(text, name)
    ]
    assert wrong == []


def folder_within(path: str) -> str:
    """The folder of a layer that a path below src/onstream, <layer>/[<folder>/]<file>, lies in; "." for the layer's own files."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else "."


def upward_within(file: Path, text: str) -> list[str]:
    """Includes from a folder of a layer to one above it, or beside it, in the same layer."""
    own = "/".join(file.parts[2:])
    layer, folder = own.split("/")[0], folder_within(own)
    order = RULES["inner"].get(layer)
    if order is None:
        return (
            [f"{file}: layer {layer} has folders, but no order of them in tests/layers.toml"] if folder != "." else []
        )
    height = {name: number for number, line in enumerate(order) for name in line}
    if folder not in height:
        return [f"{file}: folder {folder} of {layer} is not in tests/layers.toml"]
    if str(file) in RULES["inner_lists"]["files"]:
        return []
    reached = {
        include: folder_within(include.removeprefix("onstream/"))
        for include in includes_of(text)
        if included_layer(include) == layer and not is_public(include)
        if include not in RULES["inner_lists"]["headers"]
    }
    return [
        f"{file} includes {include}: {other} lies above {folder}, or beside it"
        for include, other in reached.items()
        if other != folder and height[other] >= height[folder]
    ]


def test_every_public_header_is_in_the_list() -> None:
    assert {file.stem for file in (ROOT / "include" / "onstream").glob("*.hpp")} == set(PUBLIC)
    assert set(PUBLIC.values()) <= set(HEIGHT)


def internal_includes(file: Path, text: str) -> list[str]:
    """Internal headers that a public header includes, unless it holds templates for a program's file."""
    if not file.is_relative_to("include") or file.stem in RULES["templates"]["headers"]:
        return []
    return [
        f"{file} includes {include}, which is not public"
        for include in includes_of(text)
        if include.startswith("onstream/") and not is_public(include)
    ]


def test_public_headers_include_public_headers_alone() -> None:
    public = [file for file in sources() if file.is_relative_to("include")]
    assert len(public) > 10
    assert [complaint for file in public for complaint in internal_includes(file, (ROOT / file).read_text())] == []


@pytest.mark.parametrize(
    ("file", "include", "wrong"),
    [
        ("include/onstream/plan.hpp", "onstream/plan/slots.hpp", True),
        ("include/onstream/plan.hpp", "onstream/layout.hpp", False),
        ("include/onstream/plan.hpp", "vector", False),
        ("include/onstream/kernel.hpp", "onstream/device/kernel/wait.hpp", False),
        ("src/onstream/plan/x.cpp", "onstream/plan/slots.hpp", False),
    ],
)
def test_the_check_itself_tells_public_from_internal(file: str, include: str, wrong: bool) -> None:
    assert (internal_includes(Path(file), f"#include <{include}>\n") != []) == wrong


def test_includes_within_a_layer_go_down_its_folders() -> None:
    own = [file for file in sources() if file.is_relative_to("src/onstream")]
    assert [complaint for file in own for complaint in upward_within(file, (ROOT / file).read_text())] == []


@pytest.mark.parametrize(
    ("file", "include", "complaint"),
    [
        ("src/onstream/collective/protocol/x.hpp", "onstream/collective/kernel/ll.hpp", "lies above"),
        ("src/onstream/plan/op/x.hpp", "onstream/plan/slots.hpp", "lies above"),
        ("src/onstream/plan/op/x.hpp", "onstream/plan.hpp", None),
        ("src/onstream/device/host/x.cpp", "onstream/device/cuda/gpu.hpp", "beside it"),
        ("src/onstream/device/kernel/x.hpp", "onstream/device/host/worker.hpp", "lies above"),
        ("src/onstream/device/kernel/x.hpp", "onstream/device/host/group.hpp", None),
        ("src/onstream/plan/elsewhere/x.hpp", "onstream/plan/slots.hpp", "is not in tests/layers.toml"),
        ("src/onstream/base/elsewhere/x.hpp", "onstream/base/error.hpp", "no order of them"),
        ("src/onstream/collective/kernel/x.hpp", "onstream/collective/call/call.hpp", None),
        ("src/onstream/plan/x.cpp", "onstream/plan/build/lower.hpp", None),
    ],
)
def test_the_check_itself_knows_the_folders_of_a_layer(file: str, include: str, complaint: str | None) -> None:
    wrong = upward_within(Path(file), f'#include "{include}"\n')
    assert (complaint is None and wrong == []) or (complaint is not None and complaint in wrong[0])


def test_no_folder_is_crowded() -> None:
    most = 25
    folders: dict[Path, int] = {}
    native = [file for file in (ROOT / "tests" / "native").rglob("*") if file.suffix in SUFFIXES]
    for file in [*sources(), *(file.relative_to(ROOT) for file in native)]:
        folders[file.parent] = folders.get(file.parent, 0) + 1
    assert {str(folder): count for folder, count in folders.items() if count > most} == {}


# printf writes a float with the decimal point of the program's locale.
PRINTED_FLOAT = re.compile(r'printf\s*\([^;]*"[^"]*%[-+ #0]*[\d*]*(?:\.[\d*]+)?l?[aefgAEFG]')


def test_floats_are_not_printed_by_printf() -> None:
    programs = {".c", ".h"}  # of bench, which set no locale, as those of bench/programs
    found = [
        str(file)
        for file in sources()
        if not (file.parts[0] == "bench" and file.suffix in programs) and not file.is_relative_to("bench/programs")
        if PRINTED_FLOAT.search(without_comments((ROOT / file).read_text()))
    ]
    assert found == [], "base/text.hpp has general() and scientific()"


@pytest.mark.parametrize(
    ("file", "include", "complaint"),
    [
        ("src/onstream/base/x.hpp", "onstream/plan/op/words.hpp", "lies above"),
        ("src/onstream/base/x.hpp", "onstream/plan.hpp", "lies above"),
        ("include/onstream/layout.hpp", "onstream/plan.hpp", "lies above"),
        ("include/onstream/message.hpp", "onstream/halo.hpp", "do not see each other"),
        ("src/onstream/message/x.hpp", "onstream/halo.hpp", "do not see each other"),
        ("src/onstream/plan/x.cpp", "onstream/elsewhere/x.hpp", "not in tests/layers.toml"),
        ("src/onstream/world/x.cpp", "onstream/halo.hpp", None),
        ("apps/tsunami/x.cpp", "onstream/world.hpp", None),
    ],
)
def test_the_check_itself_tells_up_from_down(file: str, include: str, complaint: str | None) -> None:
    wrong = upward_includes(Path(file), f'#include "{include}"\n')
    assert (complaint is None and wrong == []) or (complaint is not None and complaint in wrong[0])


@pytest.mark.parametrize(
    ("file", "include", "complaint"),
    [
        ("src/onstream/base/x.hpp", '"../plan/op.hpp"', "write the whole path"),
        ("src/onstream/base/x.hpp", "<onstream/base/../plan/op.hpp>", "write the whole path"),
        ("src/onstream/base/x.hpp", '"text.hpp"', "write onstream/<layer>/<file>"),
        ("compat/shmem/x.cpp", '"../upc/runtime.hpp"', "write the whole path"),
        ("compat/shmem/x.cpp", '"runtime.hpp"', None),
        ("src/onstream/base/x.hpp", '"onstream/base/text.hpp"', None),
        ("src/onstream/base/x.hpp", "<vector>", None),
    ],
)
def test_the_check_itself_wants_includes_that_say_where(file: str, include: str, complaint: str | None) -> None:
    wrong = unclear_includes(Path(file), f"#include {include}\n")
    assert len(wrong) == (complaint is not None)
    assert complaint is None or complaint in wrong[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('auto a = std::getenv("X");', True),
        ('auto a = ::getenv("X");', True),
        ("if (getenv(name)) return;", True),
        ("return getenv(name);", True),
        ("world.getenv(name);", False),
        ("Thing::getenv(name);", False),
        ("void getenv(int);", False),
        ('log("getenv(x)");', False),
    ],
)
def test_the_check_itself_knows_a_call(text: str, found: bool) -> None:
    assert calls(text, "getenv") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Fd one(::socket(1, 2, 0));", False),
        ("fd_ = Fd(::socket(1, 2, 0));", False),
        ("Fd(static_cast<int>(::socket(1, 2, 0)))", False),
        ("const int fd = ::socket(1, 2, 0);", True),
        ("return ::socket(1, 2, 0);", True),
        ("lane::socket(1);", False),
    ],
)
def test_the_check_itself_knows_whose_a_descriptor_is(text: str, found: bool) -> None:
    assert calls(without_inside(text, "Fd"), "::socket") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('std::printf("%s: %.2f us", name, us);', True),
        ('snprintf(out, size, "%.9e", seconds);', True),
        ('printf("%d of %zu, %5ld\\n", a, b, c);', False),
    ],
)
def test_the_check_itself_knows_a_printed_float(text: str, found: bool) -> None:
    assert (PRINTED_FLOAT.search(text) is not None) == found
