"""Makes .venv with the tools and libraries that the other targets need. Standard library only.

Checks the parts that cannot be installed from here (Python's version and headers, a C++20 compiler) and tells the
remedy. Packages come from PyPI at the versions pinned in tools/requirements-*.txt; with ONSTREAM_OFFLINE=1, or when
PyPI cannot be reached, those of the Python that runs this are used if they suffice. A stamp makes the next run a no-op.
"""

import sys

if sys.version_info < (3, 10):
    version = ".".join(str(part) for part in sys.version_info[:3])
    sys.exit(
        "onstream: Python 3.10 or newer is needed, but %s is %s. Install a newer one, or name it: "
        "make PYTHON=/path/to/python3" % (sys.executable, version)
    )

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import NoReturn

TOOLS = Path(__file__).resolve().parent
GROUPS = ["build", "run", "test"]
DISPENSABLE = ["quick"]

# Import names, for Pythons whose own packages are used. The first list is needed to build and test at all.
CORE_MODULES = ["nanobind", "numpy", "pytest"]
OTHER_MODULES = ["typer", "rich", "matplotlib", "hypothesis"]

CPP20_PROGRAM = """
#include <concepts>
#include <span>
#include <version>
template <std::integral T> constexpr T twice(T x) { return x + x; }
int main() { int a[2] = {1, 2}; return static_cast<int>(std::span<int>(a).size()) - twice(1); }
"""


def stop(*lines: str) -> NoReturn:
    """Ends with a message and status 1."""
    sys.exit("onstream: " + "\n          ".join(lines))


def run(command, **kwargs):
    return subprocess.run(command, text=True, capture_output=True, **kwargs)


def find_compiler():
    """The C++ compiler that CMake will take."""
    named = os.environ.get("CXX")
    if named:
        if shutil.which(named.split()[0]) is None:
            stop("CXX names %r, which cannot be run." % named, "Set CXX to a C++20 compiler, or unset it.")
        return named
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return name
    stop(
        "there is no C++ compiler here (looked for c++, g++, clang++).",
        "Debian, Ubuntu: apt install g++    Fedora, RHEL: dnf install gcc-c++    or set CXX to one elsewhere.",
    )


def check_compiler(compiler):
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text(CPP20_PROGRAM)
        command = [*compiler.split(), "-std=c++20", str(source), "-o", str(Path(folder) / "probe")]
        result = run(command)
    if result.returncode != 0:
        version = run([*compiler.split(), "--version"]).stdout.split("\n")[0]
        stop(
            "the compiler %s cannot build a C++20 program: %s" % (compiler, version),
            "It needs to be g++ 11, clang++ 14 or newer, with its standard library. Set CXX to one that is. It said:",
            *result.stderr.strip().split("\n")[:5],
        )


def check_python_headers():
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        stop(
            "the headers of %s are missing (%s)." % (sys.executable, header),
            "Debian, Ubuntu: apt install python3-dev    Fedora, RHEL: dnf install python3-devel",
            "or name another Python: make PYTHON=/path/to/python3",
        )


def make_venv(venv, system_packages):
    shutil.rmtree(venv, ignore_errors=True)
    command = [sys.executable, "-m", "venv", str(venv)]
    if system_packages:
        command += ["--system-site-packages", "--without-pip"]
    result = run(command)
    if result.returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        stop(
            "%s cannot make a virtual environment." % sys.executable,
            "Debian, Ubuntu: apt install python3-venv    or name another Python: make PYTHON=/path/to/python3",
            "It said:",
            *(result.stdout + result.stderr).strip().split("\n")[-4:],
        )


def missing_modules(modules):
    return [name for name in modules if importlib.util.find_spec(name) is None]


def missing_tools():
    """Build tools that neither PATH nor this Python has."""
    beside = Path(sys.executable).parent
    return [name for name in ("cmake", "ninja") if not shutil.which(name) and not (beside / name).exists()]


def install(venv, groups):
    """Installs the pinned packages. Returns pip's output when it failed, otherwise nothing."""
    files = []
    for group in groups:
        files += ["-r", str(TOOLS / ("requirements-%s.txt" % group))]
    print("onstream: installing %s packages into %s" % (", ".join(groups), venv), flush=True)
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    result = run([*command, "--retries", "2", *files])
    return "" if result.returncode == 0 else (result.stderr or result.stdout or "pip failed and said nothing")


def use_own_packages(venv, why):
    """Makes a venv that sees the packages of this Python, or ends naming the missing ones."""
    missing = missing_modules(CORE_MODULES) + missing_tools()
    if missing:
        stop(
            why,
            "%s lacks %s itself, so nothing can be built." % (sys.executable, ", ".join(missing)),
            "Connect to a network with PyPI or a mirror of it (pip config set global.index-url URL; behind a proxy,",
            "set HTTPS_PROXY), or install them there, and run again.",
        )
    make_venv(venv, system_packages=True)
    share_packages(venv)
    print("onstream: %s Using the packages of %s." % (why, sys.executable), flush=True)
    absent = missing_modules(OTHER_MODULES)
    if absent:
        print("onstream: without %s, what needs them does not run." % ", ".join(absent), flush=True)


def share_packages(venv):
    """Gives the venv this Python's packages, also where that is a venv itself, and its programs."""
    site = next(venv.glob("lib/python*/site-packages"))
    folders = sorted({sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]})
    lines = ["import site; site.addsitedir(%r)\n" % folder for folder in folders]
    (site / "onstream-shared.pth").write_text("".join(lines))
    for name in ("cmake", "ninja"):
        beside = Path(sys.executable).parent / name
        if beside.exists():
            (venv / "bin" / name).symlink_to(beside)


def nvcc_here():
    """A CUDA compiler that the user already has."""
    folders = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    found = os.environ.get("CUDACXX") or shutil.which("nvcc")
    for folder in folders:
        if not found and folder and Path(folder, "bin", "nvcc").exists():
            found = str(Path(folder, "bin", "nvcc"))
    return found


def gpu_here():
    return Path("/dev/nvidia0").exists() or Path("/dev/dxg").exists()


def wants_cuda_wheels(cuda):
    if cuda not in ("", "0", "1"):
        stop("CUDA is %r, but may be 0 (host only), 1 (build for CUDA) or empty (if nvcc or a GPU is here)." % cuda)
    return cuda != "0" and not nvcc_here() and (cuda == "1" or gpu_here())


def link_cuda_libraries(venv):
    """The wheels keep libraries in lib/ under their run-time names; CMake and nvcc look in lib64/ for libcudart.so."""
    for root in venv.glob("lib/python*/site-packages/nvidia/cu*"):
        names = {root / "lib64": "lib"}
        for library in (root / "lib").glob("libcudart.so.*"):
            names[library.parent / "libcudart.so"] = library.name
        for link, target in names.items():
            if not link.exists():
                link.symlink_to(target)


def stamp_of(groups, offline, venv):
    """The inputs that a venv was made for. Its programs name its own place, so it does not survive being moved."""
    digest = hashlib.sha256()
    for group in [*groups, *DISPENSABLE]:
        digest.update((TOOLS / ("requirements-%s.txt" % group)).read_bytes())
    python = [os.path.realpath(sys.executable), sys.prefix, sys.version]
    return {"python": python, "venv": str(venv), "offline": offline, "groups": groups, "pins": digest.hexdigest()}


def leave(venv):
    """Goes on with the Python that made the venv if this one is the venv's own, which could not replace itself: in a
    shell where the user has activated it."""
    if Path(sys.prefix).resolve() == venv.resolve():
        base = getattr(sys, "_base_executable", "")
        if base and Path(base).exists() and not Path(base).is_relative_to(venv):
            os.execv(base, [base, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--venv", type=Path, required=True)
    parser.add_argument("--cuda", default="", help="0, 1 or empty: if a compiler or a GPU is here")
    parser.add_argument("--check", action="store_true", help="also install the formatters and linters")
    arguments = parser.parse_args()

    venv = arguments.venv.absolute()
    leave(venv)
    offline = os.environ.get("ONSTREAM_OFFLINE", "") not in ("", "0")
    stamp_file = venv / "onstream-setup.json"
    old = json.loads(stamp_file.read_text()) if stamp_file.exists() else {}
    groups = list(GROUPS)
    if wants_cuda_wheels(arguments.cuda) or "cuda" in old.get("groups", []):
        groups.append("cuda")
    if arguments.check or "check" in old.get("groups", []):
        groups.append("check")

    wanted = stamp_of(groups, offline, venv)
    if old == wanted:
        return
    check_compiler(find_compiler())
    check_python_headers()
    if offline:
        if arguments.check:
            stop("`make check` needs the pinned formatters and linters from PyPI, but ONSTREAM_OFFLINE is set.")
        use_own_packages(venv, "ONSTREAM_OFFLINE is set.")
    else:
        if (old.get("python"), old.get("venv")) != (wanted["python"], wanted["venv"]) or old.get("offline"):
            make_venv(venv, system_packages=False)
        said = install(venv, groups)
        if said:
            print(said.strip()[-1500:], file=sys.stderr)
            why = "pip could not install the packages (see above): is PyPI reachable?"
            if old or arguments.check:
                stop(why, "Connect to a network with PyPI or a mirror of it, and run again.")
            use_own_packages(venv, why)
        elif install(venv, DISPENSABLE):
            print("onstream: ccache could not be installed, so some is compiled twice.", flush=True)
        link_cuda_libraries(venv)
    stamp_file.write_text(json.dumps(wanted))


if __name__ == "__main__":
    main()
