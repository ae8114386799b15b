"""Public headers: each compiles by itself, few need internal ones, and the version is the project's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from test_layers import RULES, includes_of, is_public

LIMIT_S = 120
INCLUDE = ROOT / "include"
SOURCES = ROOT / "src"
PUBLIC = sorted(file.name for file in (INCLUDE / "onstream").glob("*.hpp"))
TEMPLATES: dict[str, Any] = RULES["templates"]
# The headers that need internal ones: those with templates, and the one that includes all.
NEEDY = {"onstream.hpp", *(f"{name}.hpp" for name in TEMPLATES["headers"])}
# The oldest compiler that CONTRIBUTING.md names, and that of the library.
COMPILERS = {"clang": "clang++-14", "default": os.environ.get("CXX", "g++").split()[0]}


def internal_headers(*public: str) -> set[str]:
    """The internal headers that these public ones need, found as cmake/headers.cmake finds them."""
    unread, seen = [f"onstream/{name}" for name in public], set()
    while unread:
        name = unread.pop()
        if name in seen:
            continue
        seen.add(name)
        text = ((INCLUDE if is_public(name) else SOURCES) / name).read_text()
        unread += [include for include in includes_of(text) if include.startswith("onstream/")]
    return {name for name in seen if not is_public(name)}


@pytest.mark.limit(LIMIT_S)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("header", PUBLIC)
def test_a_public_header_compiles_by_itself(header: str, compiler: str, tmp_path: Path) -> None:
    program = shutil.which(COMPILERS[compiler])
    if program is None:
        pytest.skip(f"there is no {COMPILERS[compiler]}")
    source = tmp_path / "headers.cpp"
    source.write_text(f"#include <onstream/{header}>\n")
    folders = [INCLUDE, SOURCES] if header in NEEDY else [INCLUDE]
    command = [program, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *(f"-I{one}" for one in folders)]
    ended = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == 0, ended.stderr[-4000:]


def test_an_older_standard_is_refused_in_plain_words(tmp_path: Path) -> None:
    source = tmp_path / "old.cpp"
    source.write_text("#include <onstream/onstream.hpp>\n")
    command = [COMPILERS["default"], "-std=c++17", "-fsyntax-only", f"-I{INCLUDE}", f"-I{SOURCES}", str(source)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode != 0
    errors = [line for line in ended.stderr.splitlines() if "error: " in line]
    assert "onstream needs C++20: compile this file with -std=c++20" in errors[0]


def test_there_are_few_public_headers() -> None:
    assert 10 < len(PUBLIC) <= 18


def test_only_headers_with_templates_need_internal_ones() -> None:
    assert internal_headers(*(set(PUBLIC) - NEEDY)) == set()


def test_headers_with_templates_need_few_internal_ones() -> None:
    for name in TEMPLATES["headers"]:
        assert internal_headers(f"{name}.hpp"), f"{name}.hpp needs none: it is no exception"
    assert internal_headers(*NEEDY) == internal_headers(*(f"{name}.hpp" for name in TEMPLATES["headers"]))
    assert len(internal_headers(*NEEDY)) <= TEMPLATES["most"]


def test_the_door_includes_all_public_headers() -> None:
    text = (INCLUDE / "onstream" / "onstream.hpp").read_text()
    assert includes_of(text) == [f"onstream/{name}" for name in PUBLIC if name != "onstream.hpp"]


def test_the_version_is_the_projects() -> None:
    project = re.search(r"project\(onstream VERSION (\d+)\.(\d+)\.(\d+)", (ROOT / "CMakeLists.txt").read_text())
    assert project is not None
    text = (INCLUDE / "onstream" / "version.hpp").read_text()
    told = [re.findall(rf"ONSTREAM_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    assert told == [[number] for number in project.groups()]
    assert re.findall(r'kVersion = "(.*)"', text) == [".".join(project.groups())]
