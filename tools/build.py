"""Configures and builds one CMake tree, and makes its Python module importable from .venv.

Runs in .venv (tools/setup.py makes it). `build/python/onstream` becomes the package: links to the sources in python/,
beside them the compiled module; a .pth file and a start script make `import onstream` and `.venv/bin/onstream` work
without installing. Sanitizer trees have no Python module.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setup import find_compiler, nvcc_here, stop

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(sys.prefix)
# For trees that only tests use. -O1: they run long enough to be worth it, and it compiles in half of the time of -O2.
# The sources of a folder are compiled as one, in half of the time again.
QUICK = ["-DCMAKE_BUILD_TYPE=Quick", "-DCMAKE_CXX_FLAGS_QUICK=-O1 -g1", "-DONSTREAM_ONCE=ON"]

# The parts of a tree that the demo and a user's programs need and that `cmake --install` installs.
PACKAGE = ["onstream", "_core"]


def tool(name: str) -> str:
    """A program of .venv, else of PATH."""
    found = shutil.which(name, path=os.pathsep.join([str(VENV / "bin"), os.environ.get("PATH", "")]))
    if found is None:
        stop(f"{name} is not here although the set-up ended well.", "Remove .venv and run again.")
    return found


def cuda_compiler(wanted: str) -> str | None:
    """nvcc of the machine, or the one that the set-up installed; None for a host-only build."""
    if wanted == "0":
        return None
    wheels = sorted(VENV.glob("lib/python*/site-packages/nvidia/cu*/bin/nvcc"))
    found = nvcc_here() or (str(wheels[-1]) if wheels else None)
    if found is None and wanted == "1":
        stop(
            "CUDA=1, but there is no nvcc.",
            "Install a CUDA toolkit (12 or newer) and put nvcc on PATH, or set CUDACXX.",
        )
    return found


def machine_ccache() -> str | None:
    """The machine's own ccache; none in a shell where .venv is activated, which has one too."""
    found = shutil.which("ccache")
    return None if found is None or Path(found).is_relative_to(VENV) else found


def gpu_architectures() -> list[str]:
    """The compute capabilities of the GPUs of this machine, none if there are none."""
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    if shutil.which(query[0]) is None:
        return []
    answer = subprocess.run(query, capture_output=True, text=True)
    lines = answer.stdout.split() if answer.returncode == 0 else []
    return sorted({line.replace(".", "") for line in lines if line.replace(".", "").isdigit()})


def needs_stand_in(arguments: argparse.Namespace) -> bool:
    """Whether programs of libmp's or NCCL's interface cannot run over this build: it has CUDA, and the machine no GPU."""
    return cuda_compiler(arguments.cuda) is not None and not gpu_architectures()


def stand_in_of(arguments: argparse.Namespace) -> argparse.Namespace:
    """The second tree that they run over then: host only, and of it nothing but the interfaces of compat/."""
    return argparse.Namespace(**{**vars(arguments), "build": f"{arguments.build}-libmp", "cuda": "0"})


def configure_options(arguments: argparse.Namespace) -> list[str]:
    options = [f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    nvcc = cuda_compiler(arguments.cuda)
    if nvcc is None:
        options.append("-DONSTREAM_CUDA=OFF")
    else:
        host_compiler = shutil.which(find_compiler().split()[0])
        options += [
            "-DONSTREAM_CUDA=ON",
            f"-DCMAKE_CUDA_COMPILER={nvcc}",
            f"-DCMAKE_CUDA_HOST_COMPILER={host_compiler}",
        ]
        if Path(nvcc).is_relative_to(VENV):  # else CMake may take libraries of another toolkit
            options.append(f"-DCUDAToolkit_ROOT={Path(nvcc).parent.parent}")
        architectures = gpu_architectures()
        if architectures:
            options.append("-DONSTREAM_CUDA_ARCHITECTURES=" + ";".join(architectures))
    options.append(f"-DONSTREAM_STRICT={'ON' if arguments.strict == '1' else 'OFF'}")
    # The machine's own ccache has every source compiled at any time; the one in .venv only those that another tree of
    # ours has just compiled.
    once = [] if machine_ccache() else ["-DONSTREAM_ONCE=ON"]
    if ccache := machine_ccache() or shutil.which(VENV / "bin" / "ccache"):
        languages = ["CXX", "CUDA"] if nvcc else ["CXX"]
        options += [f"-DCMAKE_{language}_COMPILER_LAUNCHER={ccache}" for language in languages]
    if arguments.libmp:
        parts = [f"-DONSTREAM_{part}=OFF" for part in ("PYTHON", "TESTS", "BENCH")]
        return [*options, *QUICK, *parts, "-DONSTREAM_PROGRAMS=ON"]
    if arguments.sanitize:
        parts = [f"-DONSTREAM_{part}=OFF" for part in ("BENCH", "COMPAT")]
        return [*options, *QUICK, *parts, f"-DONSTREAM_SANITIZE={arguments.sanitize}"]
    python = [f"-DPython_EXECUTABLE={sys.executable}", "-DONSTREAM_PYTHON=ON"]
    return [*options, "-DCMAKE_BUILD_TYPE=Release", *once, *python]


def run(command: list[str], what: str, environment: dict[str, str] | None = None) -> None:
    try:
        ended = subprocess.run(command, env=environment).returncode
    except OSError as error:
        stop(f"{command[0]} cannot be run: {error.strerror}.", "Remove .venv and run again.")
    if ended != 0:
        stop(f"{what} failed; the first error above says why. The command was:", " ".join(command))


def build(arguments: argparse.Namespace) -> None:
    folder = ROOT / arguments.build
    options = configure_options(arguments)
    stamp = folder / "onstream-options.txt"
    wanted = "\n".join([str(folder), os.environ.get("CXX", ""), *options])  # a moved tree begins anew
    if not (folder / "build.ninja").exists() or not stamp.exists() or stamp.read_text() != wanted:
        (folder / "CMakeCache.txt").unlink(missing_ok=True)
        command = [tool("cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "--log-level=STATUS", *options]
        run(command, "configuring")
        stamp.write_text(wanted)
    environment = dict(os.environ, NINJA_STATUS="[%f/%t] ")
    if not machine_ccache():
        environment.setdefault("CCACHE_DIR", str(VENV / "ccache"))
    targets = PACKAGE if arguments.package else []
    run([tool("ninja"), "-C", str(folder), "-j", str(arguments.jobs), *targets], "building", environment)


def link_package(build_folder: Path) -> None:
    """Lets build/python/onstream show the sources of python/onstream beside the compiled module."""
    package = build_folder / "python" / "onstream"
    package.mkdir(parents=True, exist_ok=True)
    sources = {entry.name: entry for entry in (ROOT / "python" / "onstream").iterdir() if entry.name != "__pycache__"}
    for entry in package.iterdir():
        if entry.is_symlink() and entry.name not in sources:
            entry.unlink()
    for name, source in sources.items():
        link = package / name
        if not link.exists() and not link.is_symlink():
            link.symlink_to(source)


def make_importable(build_folder: Path) -> None:
    site = Path(sysconfig.get_paths()["purelib"])
    (site / "onstream.pth").write_text(f"{build_folder / 'python'}\n")
    script = VENV / "bin" / "onstream"
    lines = [f"#!{sys.executable}", "import sys", "", "from onstream.cli import main", "", "sys.exit(main())", ""]
    script.write_text("\n".join(lines))
    script.chmod(0o755)
    for name in ("oshcc", "oshc++", "oshrun"):
        link, command = VENV / "bin" / name, build_folder / "compat" / "shmem" / name
        link.unlink(missing_ok=True)
        if command.exists():
            link.symlink_to(command)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--build", required=True, help="folder of the build tree")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cuda", default="", help="0, 1 or empty: if a compiler is here")
    parser.add_argument("--strict", default="", help="1: a compiler's warning is an error")
    parser.add_argument("--sanitize", default="", help="address,undefined or thread")
    parser.add_argument("--libmp", action="store_true", help="only what libmp's tests need beside the build folder")
    parser.add_argument("--package", action="store_true", help="only the library and its Python module")
    arguments = parser.parse_args()
    if arguments.libmp:
        if needs_stand_in(arguments):
            build(stand_in_of(arguments))
        return
    build(arguments)
    if not arguments.sanitize:
        link_package(ROOT / arguments.build)
        make_importable(ROOT / arguments.build)


if __name__ == "__main__":
    main()
