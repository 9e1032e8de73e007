"""Results that cannot be printed: a command that has changed a table must not seem to have failed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import Result

from puffin_fast import iceberg
from puffin_fast._process.outcome import until_commit
from tests.cli.conftest import Shell

Run = Callable[..., Result]
Options = tuple[str, ...]


@contextmanager
def full() -> Iterator[int]:
    """A device that has no space."""
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def broken() -> Iterator[int]:
    """A pipe whose reader has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


def puffin_fast(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "puffin_fast", *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **options)


@pytest.mark.parametrize(("opened", "reason"), [(full, errno.ENOSPC), (broken, errno.EPIPE)])
def test_a_change_is_done_if_its_result_cannot_be_printed(shell: Shell, opened: Any, reason: int) -> None:
    with opened() as stdout:
        done = puffin_fast("delete", "ns.t", "--row-filter", "id = 1", *shell.options, stdout=stdout)
    assert done.returncode == 0
    assert done.stderr == (
        "puffin-fast: the command is done; its result could not be printed: "
        f"standard output: {os.strerror(reason)}\n"
    )
    assert shell.count() == 999


def test_rows_that_cannot_be_printed_are_an_error_but_for_a_reader_that_has_ended(
    shell: Shell,
) -> None:
    with full() as stdout:
        done = puffin_fast("scan", "ns.t", "--count", *shell.options, stdout=stdout)
    assert done.returncode == 1
    assert done.stderr == f"puffin-fast: error: standard output: {os.strerror(errno.ENOSPC)}\n"
    with broken() as stdout:
        done = puffin_fast("scan", "ns.t", "--count", *shell.options, stdout=stdout)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_closed_standard_output_is_no_error(shell: Shell) -> None:
    command = 'exec "$0" -m puffin_fast "$@" >&-'
    arguments = ("delete", "ns.t", "--row-filter", "id = 1", *shell.options)
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert shell.count() == 999


def test_characters_that_standard_output_does_not_have_are_escaped(shell: Shell) -> None:
    arguments = ("delete", "ns.t", "--row-filter", "word = 'ü☃'", "--dry-run", *shell.options)
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "puffin_fast", *arguments]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"word = '\xfc\\u2603'" in done.stdout


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_interrupt_says_whether_a_change_may_have_happened(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    monkeypatch.setattr(iceberg, "delete", interrupted)
    chosen = ("--dry-run",) if dry_run else ()
    result = shell.run("delete", "ns.t", "--row-filter", "id = 1", *chosen)
    assert result.exit_code == 130
    expected = "nothing was changed" if dry_run else "it is unknown whether the change happened"
    assert expected in result.stderr


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("_options.open_table", "nothing was changed"),
        ("table._changed", "the change is done; only its result is not printed"),
    ],
)
def test_an_interrupt_before_or_after_the_change_is_no_doubt(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, where: str, said: str
) -> None:
    monkeypatch.setattr(f"puffin_fast.cli.{where}", interrupted)
    result = shell.run("delete", "ns.t", "--row-filter", "id = 1")
    assert (result.exit_code, result.stderr) == (130, f"main: interrupted: {said}\n")
    monkeypatch.undo()
    assert shell.count() == (1000 if said.startswith("nothing") else 999)


def test_an_interrupt_names_the_jobs_that_are_done(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puffin_fast.iceberg.dml.attempt.open_table", until_commit()(interrupted))
    result = shell.run("delete", "ns.t", "--row-filter", "id = 1")
    assert result.stderr == "main: interrupted: nothing was committed, no file was written\n"
    monkeypatch.setattr(iceberg, "convert_equality_deletes", until_commit()(interrupted))
    result = shell.run("convert", "ns.t")
    assert result.stderr.endswith("no file was written; the job before it is done\n")
    monkeypatch.setattr("puffin_fast.iceberg.maintenance.maintain.compact", until_commit()(interrupted))
    result = shell.run("maintain", "ns.t")
    done = "steps that were done before: position deletes, equality deletes, data files"
    assert result.stderr == f"main: interrupted: nothing was committed, no file was written; {done}\n"


def test_an_interrupt_while_the_program_is_imported_prints_no_traceback() -> None:
    program = """
import sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == "puffin_fast.cli._options":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from puffin_fast.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "puffin-fast: interrupted: nothing was changed\n")
