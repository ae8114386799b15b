"""Public headers, as the oldest compiler that CONTRIBUTING.md names takes them: clang++ 14 beside the library of g++."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

LIMIT_S = 120
SOURCES = ROOT / "src"
# The headers that programs include (docs, examples); each brings the rest.
PUBLIC = [
    "onstream/world/world.hpp",
    "onstream/collective/user_op.hpp",
    "onstream/collective/neighbour/neighbourhood.hpp",
    "onstream/one_sided/kernel/device.hpp",
    "onstream/halo/halo.hpp",
    "onstream/device/kernel/group.hpp",
    "onstream/base/error.hpp",
]


@pytest.mark.limit(LIMIT_S)
@pytest.mark.parametrize("header", PUBLIC)
def test_a_public_header_compiles_by_itself_with_clang_14(header: str, tmp_path: Path) -> None:
    compiler = shutil.which("clang++-14")
    if compiler is None:
        pytest.skip("there is no clang++-14")
    source = tmp_path / "headers.cpp"
    source.write_text(f'#include "{header}"\n')
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}", str(source)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == 0, ended.stderr[-4000:]
