"""Options go by name: a call reads alike whichever of them it gives, and a new one moves no other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FACES = (
    "_core.pyi", "cartesian.py", "collectives.py", "contexts.py", "heap.py", "messages.py", "neighbours.py", "objects.py",
    "plans.py", "symmetric.py", "teams.py", "uneven.py", "world.py",
)  # fmt: skip
# Data like the arguments before them, which some calls go without.
DATA = {"out", "dtype", "key", "counts", "displacement"}


@pytest.mark.parametrize("face", FACES)
def test_what_may_be_left_out_behind_other_arguments_is_given_by_name(face: str) -> None:
    positional = []
    for owner in ast.parse((ROOT / "python" / "onstream" / face).read_text()).body:
        methods = owner.body if isinstance(owner, ast.ClassDef) else []
        for method in methods:
            if not isinstance(method, ast.FunctionDef) or method.name.startswith("_"):
                continue
            arguments = method.args.posonlyargs + method.args.args
            left_out = arguments[len(arguments) - len(method.args.defaults) :]
            behind = [one.arg for one in left_out if one not in arguments[:2] and one.arg not in DATA]
            positional += [f"{owner.name}.{method.name}: {name}" for name in behind]
    assert positional == []
