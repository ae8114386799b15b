"""The examples work as docs/install.md says: from the installed package, as a folder of another project, and from Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import ROOT, build_folder
from test_headers import internal_headers

EXAMPLES = ROOT / "examples"
LIMIT_S = 400  # a folder of another project is compiled anew

INSTALLATION = (ROOT / "docs" / "install.md").read_text()
(VERSION,) = re.findall(r"project\(onstream VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())


def do(*command: object, env: Mapping[str, str] | None = None) -> str:
    """Runs a command, which must succeed, and returns its output."""
    words = [str(word) for word in command]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env)
    assert ended.returncode == 0, f"{' '.join(words)}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


def cmake() -> str:
    """The one that configured the tree under test; an older one of the machine may not read its files."""
    cache = build_folder() / "CMakeCache.txt"
    found = re.search(r"^CMAKE_COMMAND:INTERNAL=(.*)$", cache.read_text(), re.MULTILINE)
    assert found is not None, f"{cache} names no cmake; run `make build`"
    return found[1]


def configure_and_build(source: Path, build: Path, *options: str) -> None:
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    do(cmake(), "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", *launcher, *options)
    do(cmake(), "--build", build, "-j", "2")


def run(size: int, *program: object) -> list[str]:
    return do(sys.executable, "-m", "onstream", "run", "-n", size, *program).splitlines()


def check_ring(program: Path) -> None:
    for size in (1, 3):
        said = sorted(run(size, program))
        assert said == [
            f"[{rank}] rank {rank} of {size}: after 101 steps here is the number of rank {(rank - 101) % size}"
            for rank in range(size)
        ]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    do(cmake(), "--install", build_folder(), "--prefix", folder)
    return folder


def test_an_installation_has_the_library_and_no_python(prefix: Path) -> None:
    files = {str(file.relative_to(prefix)) for file in prefix.rglob("*") if file.is_file()}
    assert any(name.endswith("/libonstream.a") for name in files)
    assert [name for name in files if "_core" in name or name.endswith(".py")] == []


def test_an_installation_has_the_public_headers_and_those_that_they_need(prefix: Path) -> None:
    include = prefix / "include"
    installed = {str(file.relative_to(include)) for file in (include / "onstream").rglob("*") if file.is_file()}
    public = {str(file.relative_to(ROOT / "include")) for file in (ROOT / "include" / "onstream").iterdir()}
    assert installed == public | internal_headers(*(Path(name).name for name in public if name.endswith(".hpp")))


# Every family of calls, with one include, on two ranks.
PROGRAM = r"""
#include <onstream/onstream.hpp>

#include <cstdio>
#include <vector>

int main() {
  namespace collective = onstream::collective;
  auto world = onstream::World::create();
  const int rank = world->rank(), peer = (rank + 1) % world->size();
  onstream::Stream stream = world->device().create_stream();
  auto memory = world->allocate(64 * sizeof(int), onstream::MemoryKind::pinned);
  auto* cells = reinterpret_cast<int*>(memory->data());
  auto* got = cells + 32;
  cells[0] = rank;
  world->sendrecv({cells, sizeof(int), peer, {}}, {got, sizeof(int), peer, {}}, stream);

  onstream::PlanBuilder builder = world->plan("columns");  // two elements, one apart
  const auto layout = onstream::Layout::strided(sizeof(int), {2}, {2 * sizeof(int)});
  builder.send(cells, layout, peer).recv(got + 4, layout, peer);
  builder.build()->launch(stream);

  onstream::HaloSpec spec;
  spec.shape = {6};
  spec.element_bytes = sizeof(int);
  spec.ghost = {1};
  spec.periodic = {true};
  spec.grid = {world->size()};
  for (int i = 10; i < 16; ++i) cells[i] = rank;
  world->halo(cells + 10, spec)->launch(stream);

  auto segment = world->segment(4096, onstream::MemoryKind::pinned);
  auto window = world->window(segment);
  world->one_sided().put(onstream::Remote{*window, peer, 0}, cells, sizeof(int), stream);
  world->team()->barrier(stream);
  world->collective().run(collective::all_reduce({cells, got + 8, 1, onstream::ElementType::int32}), stream);
  world->synchronize(stream);
  const int put = *reinterpret_cast<int*>(segment->local());
  std::printf("%s: rank %d has %d %d %d %d %d\n", onstream::kVersion, rank, got[0], got[4], cells[10], put, got[8]);
  world->barrier();
  world->device().destroy_stream(stream);
}
"""


@pytest.mark.limit(LIMIT_S)
@pytest.mark.install
def test_a_program_with_every_family_needs_the_installed_tree_alone(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "ring.cpp").write_text(PROGRAM)  # by the name that the page's project has
    (tmp_path / "CMakeLists.txt").write_text(project_of_page())
    configure_and_build(tmp_path, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    commands = (tmp_path / "build" / "build.ninja", tmp_path / "build" / "CMakeFiles" / "ring.dir" / "flags.make")
    assert all(str(ROOT / "src") not in file.read_text() for file in commands if file.exists())
    started = [sys.executable, "-m", "onstream", "run", "-n", 2, tmp_path / "build" / "ring"]
    said = do(*started, env=os.environ | {"ONSTREAM_DEVICE": "host"}).splitlines()
    assert sorted(said) == [
        f"[{rank}] {VERSION}: rank {rank} has {1 - rank} {1 - rank} {1 - rank} {1 - rank} 1" for rank in range(2)
    ]


def test_the_component_cpp_is_what_make_demo_has_built(tmp_path: Path) -> None:
    do(cmake(), "--install", build_folder(), "--component", "cpp", "--prefix", tmp_path)
    files = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert any(name.endswith("/libonstream.a") for name in files)
    assert any(name.endswith("/onstream-config.cmake") for name in files)
    assert [name for name in files if name.endswith(".so") or ".so." in name] == []  # other libraries' interfaces


@pytest.mark.limit(LIMIT_S)
@pytest.mark.gpu
def test_examples_are_built_from_the_installed_package(prefix: Path, tmp_path: Path) -> None:
    configure_and_build(EXAMPLES, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    check_ring(tmp_path / "build" / "ring")
    assert "[1] rank 1 has 42" in run(2, tmp_path / "build" / "first")
    said = run(4, tmp_path / "build" / "halo")
    assert [f"[{rank}] rank {rank}: its ghost cells are right" for rank in range(4)] == sorted(
        line for line in said if "ghost cells" in line
    )
    assert "[0] plan 'halo' (number" in "\n".join(said)


@pytest.mark.limit(LIMIT_S)
@pytest.mark.install
def test_the_pages_project_is_built_with_onstream_as_a_folder(tmp_path: Path) -> None:
    lists = project_of_page().replace("find_package(onstream REQUIRED)", f"add_subdirectory({ROOT} onstream)")
    assert "add_subdirectory" in lists
    (tmp_path / "CMakeLists.txt").write_text(lists)
    shutil.copy(EXAMPLES / "ring.cpp", tmp_path)
    quickly = ["-DCMAKE_BUILD_TYPE=None", "-DONSTREAM_ONCE=ON"]  # None is no type: nothing is optimised
    configure_and_build(tmp_path, tmp_path / "build", "-DONSTREAM_CUDA=OFF", *quickly)
    check_ring(tmp_path / "build" / "ring")
    commands = tmp_path / "build" / "compile_commands.json"
    assert not commands.exists() or "/tests/native/" not in commands.read_text()
    assert not list((tmp_path / "build").rglob("test_*")), "another project's build has our tests"


@pytest.mark.limit(LIMIT_S)
def test_the_functor_of_the_page_is_built_from_the_installed_package(prefix: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "product.cpp", tmp_path / "ring.cpp")  # by the name that the page's project has
    (tmp_path / "CMakeLists.txt").write_text(project_of_page())
    configure_and_build(tmp_path, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    # Compiled without nvcc.
    started = [sys.executable, "-m", "onstream", "run", "-n", 3, tmp_path / "build" / "ring"]
    said = do(*started, env=os.environ | {"ONSTREAM_DEVICE": "host"}).splitlines()
    assert sorted(said) == [f"[{rank}] rank {rank} has 1 0 10 8" for rank in range(3)]


@pytest.mark.limit(LIMIT_S)
def test_the_first_program_is_built_by_the_compilers_line_of_the_page(prefix: Path, tmp_path: Path) -> None:
    (line,) = re.findall(r"^g\+\+ .*$", INSTALLATION, re.MULTILINE)
    (config,) = prefix.rglob("onstream-config.cmake")
    if 'set(onstream_WITH_CUDA "ON")' in config.read_text():
        pytest.skip("the library has the CUDA device, for which the page names CMake")
    (library,) = prefix.rglob("libonstream.a")
    line = line.replace("$PREFIX/lib/libonstream.a", str(library)).replace("$PREFIX", str(prefix))
    program = tmp_path / "prog"
    do(*line.replace("prog.cpp", str(EXAMPLES / "first.cpp")).split(), "-o", program)
    said = do(sys.executable, "-m", "onstream", "run", "-n", 2, program, env=os.environ | {"ONSTREAM_DEVICE": "host"})
    assert sorted(said.splitlines()) == ["[0] rank 0 has 42", "[1] rank 1 has 42"]


@pytest.mark.parametrize("name", ["first.cpp", "halo.cpp", "pass/pass.cpp", "product.cpp", "ring.cpp"])
def test_every_program_asks_for_the_rest_of_its_errors(name: str) -> None:
    assert "world->finish();" in (EXAMPLES / name).read_text()


@pytest.mark.limit(LIMIT_S)
@pytest.mark.gpu
def test_the_kernel_of_the_page_is_built_from_the_installed_package(prefix: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "pass", tmp_path, dirs_exist_ok=True)
    configure_and_build(tmp_path, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    for size in (1, 4):
        said = sorted(run(size, tmp_path / "build" / "pass"))
        assert said == [f"[{rank}] rank {rank} has the sum {64 * ((rank - 1) % size)}" for rank in range(size)]


def project_of_page() -> str:
    (code,) = re.findall(r"```cmake\n(.*?)```", INSTALLATION, re.DOTALL)
    return str(code)


@pytest.mark.gpu
def test_the_python_ring_says_what_it_has() -> None:
    said = sorted(run(3, "python", EXAMPLES / "ring.py"))
    assert said == [f"[{rank}] rank {rank} of 3 has the {(rank - 1) % 3} of rank {(rank - 1) % 3}" for rank in range(3)]


@pytest.mark.gpu
def test_the_python_halo_fills_ghost_cells_and_passes_rows() -> None:
    said = run(4, "python", EXAMPLES / "halo.py")
    assert sorted(line for line in said if "above lies" in line) == [
        f"[{rank}] rank {rank}: above lies rank {(rank + 2) % 4}, and a row came from rank {(rank - 1) % 4}"
        for rank in range(4)
    ]
    assert any(line.startswith("[0] plan 'halo'") for line in said)
