"""The documents are true of the tree: links lead somewhere, commands and decisions exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")])


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_make_commands_are_targets(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([\w-]+)", page.read_text()))
    assert named <= targets


def test_every_make_target_is_in_the_help() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split())
    inner = {
        "help",
        "package",
        "libmp",
        "setup",
        "setup-check",
        "python",
        "lint",
        "rules",
        "site",
        "install-check",
        "sanitize",
    }
    told = set(re.findall(r'@echo "make ([\w-]+)', text))
    assert phony - inner == told


def test_decisions_are_numbered_without_gaps() -> None:
    names = sorted(file.name for file in (ROOT / "docs" / "decisions").glob("0*.md"))
    assert [name[:4] for name in names] == [f"{number:04d}" for number in range(1, len(names) + 1)]


def test_pinned_packages_are_pinned_exactly() -> None:
    for file in (ROOT / "tools").glob("requirements-*.txt"):
        for line in file.read_text().splitlines():
            assert line.startswith("#") or re.match(r"^[\w.-]+==[\w.]+(; .*)?$", line), f"{file.name}: {line}"
