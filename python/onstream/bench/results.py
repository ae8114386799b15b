"""A result: the first fields of every kind, and how it is written to a file and read again."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError

SCHEMA = 1


def command_of(words: Iterable[str]) -> str:
    """A command for people: files by their names, wherever they lie."""
    return shlex.join(Path(word).name if word.startswith("/") else word for word in words)


def preamble(kind: str, where: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The first fields of every result: its kind, and how and where it was measured."""
    return {
        "schema": SCHEMA,
        "kind": kind,
        "command": command_of(["onstream", *sys.argv[1:]]),
        "environment": where,
        "settings": settings,
    }


def write(result: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")


def load(file: Path, kinds: Collection[str]) -> dict[str, Any]:
    """A result of one of the kinds, which write() made. Throws naming the file when it is something else."""
    try:
        result = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{file} cannot be read: {error}") from error
    if not isinstance(result, dict) or result.get("schema") != SCHEMA or "kind" not in result:
        raise InvalidArgumentError(f"{file} is no result of `onstream bench` with schema {SCHEMA}")
    if not isinstance(result["kind"], str) or result["kind"] not in kinds:
        raise InvalidArgumentError(f"{file} is of kind {result['kind']!r}; there are {', '.join(kinds)}")
    return result
