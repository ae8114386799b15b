"""The package names the UCX of the Python package libucx, and leaves a name that the user has set."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onstream import _ucx


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "libucx" / "lib" / "libucp.so.0"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "none"), str(tmp_path)])
    monkeypatch.delenv(_ucx.VARIABLE, raising=False)
    return file


def test_the_library_of_the_package_is_named(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_ucx.VARIABLE, "")
    monkeypatch.delenv(_ucx.VARIABLE)
    _ucx.name_library()
    assert _ucx.os.environ[_ucx.VARIABLE] == str(package)


def test_a_name_that_is_set_stays(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_ucx.VARIABLE, "/opt/ucx/lib/libucp.so.0")
    _ucx.name_library()
    assert _ucx.os.environ[_ucx.VARIABLE] == "/opt/ucx/lib/libucp.so.0"


def test_without_the_package_nothing_is_named(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package.unlink()
    _ucx.name_library()
    assert _ucx.VARIABLE not in _ucx.os.environ
