"""Counts sentences of prose in which a clause with "what" or "who" stands for a noun (STYLE.md, "Prose").

tools/prose.py                  a table of folders; exit status 1 if more than 1 % of all sentences have one
tools/prose.py --list PATH...   those sentences of the files and folders, each with its file and line
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST = 0.01
CODE = {".cpp", ".hpp", ".cu", ".cuh", ".c", ".h", ".inc"}
PLACES = (
    "include",
    "src",
    "python",
    "compat",
    "apps",
    "bench",
    "tests",
    "tools",
    "examples",
    "docs",
    "README.md",
    "ARCHITECTURE.md",
)
HEADLESS = re.compile(r"\b(what|who|whoever|whatever)\b|\bthe same of\b|\bbut for\b|\blikewise\b", re.IGNORECASE)
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"")
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+")

Passage = tuple[int, str]  # its first line, and its text


def of_code(text: str) -> Iterator[Passage]:
    """The comments of C or C++: lines that follow each other are one passage."""
    block: list[str] = []
    start = 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        comment = re.search(r"(?<![:\"])//+ ?(.*)$", line)
        if comment and line.strip().startswith("//"):
            start = start if block else number
            block.append(comment.group(1))
            continue
        if block:
            yield start, " ".join(block)
            block = []
        if comment:
            yield number, comment.group(1)


def of_python(text: str) -> Iterator[Passage]:
    """Docstrings and comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            told = ast.get_docstring(node)
            if told and isinstance(node.body[0], ast.Expr):
                yield node.body[0].lineno, told
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def of_page(text: str) -> Iterator[Passage]:
    """The paragraphs of a page, without its blocks of code."""
    block: list[str] = []
    start, in_code = 0, False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        fence = line.lstrip().startswith("```")
        in_code ^= fence
        if line.strip() and not fence and not in_code:
            start = start if block else number
            block.append(line.strip())
        elif block:
            yield start, " ".join(block)
            block = []


def passages(file: Path) -> Iterator[Passage]:
    text = file.read_text(errors="replace")
    if file.suffix in CODE:
        return of_code(text)
    return of_python(text) if file.suffix == ".py" else of_page(text)


def sentences(file: Path) -> Iterator[Passage]:
    for line, text in passages(file):
        for sentence in SENTENCE_END.split(text):
            if len(sentence.split()) > 1:
                yield line, sentence


def is_headless(sentence: str) -> bool:
    return HEADLESS.search(QUOTED.sub("", sentence)) is not None and not sentence.rstrip().endswith("?")


def files(places: list[str]) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *places], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    known = [ROOT / name for name in listed.split("\n") if Path(name).suffix in {*CODE, ".py", ".md"}]
    return [file for file in known if file.is_file() and "results" not in file.parts]


def folder_of(file: Path) -> str:
    parts = file.relative_to(ROOT).parts[:-1]
    return "/".join(parts[: 3 if parts[:1] == ("src",) else 2]) or "."


def main() -> int:
    if sys.argv[1:2] == ["--list"]:
        for file in files(sys.argv[2:]):
            for line, sentence in sentences(file):
                if is_headless(sentence):
                    print(f"{file.relative_to(ROOT)}:{line}: {sentence}")
        return 0
    every, headless = Counter[str](), Counter[str]()
    for file in files(list(PLACES)):
        for _, sentence in sentences(file):
            every[folder_of(file)] += 1
            headless[folder_of(file)] += is_headless(sentence)
    for folder in sorted(every):
        print(
            f"{folder:32} {every[folder]:6} sentences {headless[folder]:5} headless {headless[folder] / every[folder]:7.1%}"
        )
    share = headless.total() / every.total()
    print(f"{'all':32} {every.total():6} sentences {headless.total():5} headless {share:7.1%}; at most {MOST:.0%}")
    return int(share > MOST)


if __name__ == "__main__":
    sys.exit(main())
