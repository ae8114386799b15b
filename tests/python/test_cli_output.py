"""The `onstream` command where its output is closed, full, without a reader, or of another encoding: never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench_results import made_up, row

COMMANDS = [
    "--version",
    "--help",
    "info",
    "info --json",
    "rings dgx1-v100",
    "run --help",
    "bench --help",
    "demo --help",
]
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LATIN_2 = {"PYTHONIOENCODING": "iso-8859-2"}


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a line of bash, in which $ONSTREAM is the command; its code is that of the command."""
    env = {**os.environ, "ONSTREAM": f"{sys.executable} -m onstream", "COLUMNS": "200", **environment}
    return subprocess.run(["bash", "-o", "pipefail", "-c", line], env=env, capture_output=True, timeout=100)


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_full_disk_is_told_in_one_line(arguments: str) -> None:
    ended = shell(f"$ONSTREAM {arguments} > /dev/full")
    assert ended.returncode == 1
    assert ended.stderr == b"onstream: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize("arguments", ["info", "rings dgx1-v100", "bench --help"])
def test_output_may_be_closed(arguments: str) -> None:
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        ended = shell(f"$ONSTREAM {arguments} {closed}")
        assert (ended.returncode, ended.stderr) == (0, b"")
    for silent in ("2>&-", "2>/dev/full"):
        ended = shell(f"$ONSTREAM rings nothing {silent}")
        assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"")


@pytest.mark.parametrize("arguments", ["--help", "info", "info --json", "rings dgx1-v100"])
def test_a_reader_may_go(arguments: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "onstream", *arguments.split()], stdout=writer, stderr=subprocess.PIPE, timeout=100
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (128 + 13, b"")


@pytest.mark.parametrize(("environment", "encoding"), [(PLAIN, "ascii"), (LATIN_2, "iso-8859-2")])
def test_tables_are_in_plain_ascii_where_the_encoding_lacks_their_lines(
    environment: dict[str, str], encoding: str
) -> None:
    ended = shell("$ONSTREAM info", **environment)
    assert (ended.returncode, ended.stderr) == (0, b"")
    text = ended.stdout.decode(encoding)
    assert " - Python 3" in text.splitlines()[0]
    assert "?" not in text
    assert any(set(line.strip()) == {"+", "-"} for line in text.splitlines())
    for arguments in ("info --parameters", "--help", "bench --help", "demo --help"):
        ended = shell(f"$ONSTREAM {arguments}", **environment)
        assert (ended.returncode, ended.stderr) == (0, b""), arguments
        ended.stdout.decode(encoding)


def test_a_report_tells_names_that_the_encoding_lacks(tmp_path: Path) -> None:
    file, html = tmp_path / "result.json", tmp_path / "résultat.html"
    rows = [row("onstream", "ping-pong", "host", 8, 1e-6)]
    file.write_text(json.dumps(made_up(rows, device="Zen™ 4 · 2 cores"), ensure_ascii=False), encoding="utf-8")
    ended = shell(f"$ONSTREAM bench report {file} --html {html}", **PLAIN)
    assert ended.returncode == 0, ended.stderr
    assert b"written: " + os.fsencode(html) in ended.stdout
    assert "Zen™ 4" in html.read_text(encoding="utf-8")


def test_a_name_that_is_no_text_is_shown_as_it_is() -> None:
    assert b"'caf\xe9'" in shell("$ONSTREAM run -n 1 $'caf\\xe9'").stderr
    assert b"'caf\xe9'" in shell("$ONSTREAM rings $'caf\\xe9'", **PLAIN).stderr


def test_help_says_who_reads_standard_input() -> None:
    text = b" ".join(shell("$ONSTREAM run --help").stdout.split()).decode()
    for words in ("Rank 0 alone reads standard input", "python -", "Ctrl-D", "<(...)", "nohup", "SIGPIPE", "16 MiB"):
        assert words in text, words
