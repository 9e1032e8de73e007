"""Progress of long jobs: shown on a terminal, nothing elsewhere. The child processes have a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

SET_UP = """
import os, sys
from puffin_fast._concurrency import progress as module
from puffin_fast._concurrency.progress import progress
from puffin_fast._concurrency.streams import in_order
from puffin_fast._concurrency.threads import on_threads
module.DELAY_S = -1
"""


def run_on_terminal(code: str, folder: Path, **variables: str) -> tuple[str, str]:
    """Runs code in a child process; returns its standard output, a pipe, and its standard error, a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **variables}
    script = SET_UP + textwrap.dedent(code)
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=folder,
        env=environment,
        text=True,
    ) as child:
        os.close(theirs)
        shown = b"".join(chunks(ours)).decode()
        assert child.stdout is not None
        printed = child.stdout.read()
    os.close(ours)
    assert child.returncode == 0, shown
    return printed, shown


def chunks(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:  # the child has closed its end
            return
        if not chunk:
            return
        yield chunk


def test_items_are_counted_and_the_display_disappears(tmp_path: Path) -> None:
    printed, shown = run_on_terminal("print(sum(progress(range(5), 'adding numbers')))", tmp_path)
    assert printed == "10\n"
    assert "adding numbers" in shown
    assert "/5" in shown
    assert "\x1b[?25h" in shown.rpartition("/5")[2]  # the cursor is shown again


def test_jobs_on_threads_inside_of_each_other_share_a_display(tmp_path: Path) -> None:
    code = """
    def inner(n):
        return sum(on_threads(lambda i: i, range(n), 3, label="inner jobs"))
    print(list(in_order([3, 4, 5], lambda n: [inner(n)], 2, label="outer jobs")))
    print(list(in_order(iter([3, 4]), lambda n: [n], 2, label="jobs without a number")))
    assert module._display is None
    """
    printed, shown = run_on_terminal(code, tmp_path)
    assert printed == "[3, 6, 10]\n[3, 4]\n"
    assert all(label in shown for label in ("inner jobs", "outer jobs", "jobs without a number"))
    assert "Traceback" not in shown


def test_the_display_ends_with_an_error_and_with_a_closed_reader(tmp_path: Path) -> None:
    code = """
    def fails(n):
        if n == 2:
            raise ValueError("on purpose")
        return [n]
    for threads in (1, 2):
        try:
            list(in_order(range(4), fails, threads, label="failing"))
        except ValueError as error:
            print(error)
        assert module._display is None
    some = in_order(range(9), lambda n: [n], 2, label="left early")
    next(some), next(some), some.close()
    assert module._display is None
    """
    assert run_on_terminal(code, tmp_path)[0] == "on purpose\non purpose\n"


def test_a_forked_process_has_a_display_of_its_own(tmp_path: Path) -> None:
    code = """
    items = progress(range(3), "in the parent")
    next(items), next(items)
    child = os.fork()
    if not child:
        assert module._display is None
        list(items)
        os._exit(sum(progress(range(3), "in the child")))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(list(items)))
    """
    printed, shown = run_on_terminal(code, tmp_path)
    assert printed == "3 1\n"
    assert "in the child" in shown


@pytest.mark.parametrize("variables", [{"PUFFIN_FAST_PROGRESS": "0"}, {"TERM": "dumb"}], ids=str)
def test_it_is_turned_off(tmp_path: Path, variables: dict[str, str]) -> None:
    assert run_on_terminal("list(progress(range(5), 'adding numbers'))", tmp_path, **variables)[1] == ""


def test_nothing_is_shown_in_a_pipe(tmp_path: Path) -> None:
    code = SET_UP + "list(progress(range(5), 'adding numbers'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path, check=True)
    assert done.stdout == done.stderr == b""


def test_an_item_that_takes_long_shows_its_rows_before_it_ends(tmp_path: Path) -> None:
    code = """
    module.REFRESH_S = 0.001
    def work(n):
        module.count_rows(read=n, written=7)
        for _ in range(10**7):  # until the display shows it
            with module._lock:
                if module._display is not None and module._display._tasks:
                    return n
    print(list(on_threads(work, [1234], 1, label="one long item")))
    """
    printed, shown = run_on_terminal(code, tmp_path)
    assert printed == "[1234]\n"
    assert "one long item" in shown
    assert "0/1 1,234 rows read, 7 rows written" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


def test_a_display_that_fails_is_no_error_of_the_job(tmp_path: Path) -> None:
    code = """
    import warnings
    warnings.simplefilter("error")
    class Closed:
        encoding = "utf-8"
        def isatty(self): return True
        def write(self, text): raise BrokenPipeError("closed")
        def flush(self): raise BrokenPipeError("closed")
    for refused in (None, "rich.progress"):
        sys.stderr, sys.modules["rich.progress"] = Closed(), sys.modules.get("rich.progress")
        if refused:
            sys.modules[refused] = None
        print(sum(progress(range(5), "adding numbers")), module._display, [*module._bars])
    sys.stderr = sys.__stderr__
    """
    assert run_on_terminal(code, tmp_path)[0] == "10 None []\n" * 2


def test_what_a_program_prints_during_a_job_goes_to_its_standard_output(tmp_path: Path) -> None:
    code = """
    for i in progress(range(5), "reading"):
        with module._lock:
            module._show()
        print("row", i)
    """
    printed, shown = run_on_terminal(code, tmp_path)
    assert printed == "".join(f"row {i}\n" for i in range(5))
    assert "reading" in shown
    assert "row" not in shown


def test_a_closed_standard_error_is_no_error_of_the_job(tmp_path: Path) -> None:
    code = """
    for i in progress(range(3), "before"):
        sys.stderr.close()
    print(i, module._display, [*module._bars], sys.stdout is sys.__stdout__)
    print(list(progress(range(3), "after")))
    """
    assert run_on_terminal(code, tmp_path)[0] == "2 None [] True\n[0, 1, 2]\n"


def test_the_display_and_its_thread_end_where_the_end_of_a_job_was_interrupted(tmp_path: Path) -> None:
    code = """
    module.REFRESH_S = 0.001
    end = module._remove
    module._remove = lambda bar: (_ for _ in ()).throw(KeyboardInterrupt)
    try:
        list(progress(range(3), "interrupted"))
    except KeyboardInterrupt:
        module._remove = end
    watcher = module._watcher
    print([*module._bars], watcher is None or watcher.wait(60), module._display)
    """
    assert run_on_terminal(code, tmp_path)[0] == "[] True None\n"


def test_a_notebook_without_widgets_shows_a_line_of_text() -> None:
    code = """
    import contextlib, io, sys, warnings
    from puffin_fast._concurrency import progress as module
    sys.modules["ipywidgets"], module.DELAY_S = None, -1
    warnings.simplefilter("error")
    with contextlib.redirect_stderr(io.StringIO()) as shown:
        print(sum(module.progress(range(5), "adding numbers")), shown.getvalue().split("\\r"))
    """
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(code))])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    (out,) = book.cells[0].outputs
    line = "adding numbers 5/5 0:00:00"
    assert out["text"] == f"10 {['', line, ' ' * len(line), '']}\n"


def test_the_verbs_of_a_table_say_what_they_do(tmp_path: Path) -> None:
    code = """
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog
    from puffin_fast import iceberg
    catalog = SqlCatalog("c", uri="sqlite:///c.db", warehouse=f"file://{os.getcwd()}/w")
    catalog.create_namespace("n")
    table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]))
    for start in range(0, 4000, 1000):
        iceberg.append(table, pa.table({"id": range(start, start + 1000)}))
    iceberg.delete(table, "id < 3500 and id != 7")
    iceberg.update(table, "id = 7", {"id": 8})
    iceberg.collect_ndv(table)
    iceberg.verify(table)
    iceberg.rewrite_data_files(table, min_deleted=0.1)
    print(iceberg.scan(table).to_arrow().num_rows)
    """
    printed, shown = run_on_terminal(code, tmp_path)
    assert printed == "501\n"
    for label in (
        "writing data files",
        "searching data files",
        "reading data files",
        "counting values",
        "checking deletes",
        "rewriting file groups",
    ):
        assert label in shown


def test_commands_show_the_rows_that_they_read_and_write(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id\n1\n2\n3\n")
    code = """
    from puffin_fast.cli import main
    for arguments in (["create", "./d", "x.csv"], ["append", "./d", "x.csv"], ["scan", "./d", "--to", "y.csv"]):
        main(arguments, standalone_mode=False)
    """
    _, shown = run_on_terminal(code, tmp_path)
    assert "reading rows" in shown
    assert "writing rows" in shown
    assert (tmp_path / "y.csv").read_text().split() == ['"id"', "1", "2", "3"]
    _, quiet = run_on_terminal(code.replace("./d", "./e"), tmp_path, PUFFIN_FAST_PROGRESS="0")
    assert all(line.startswith("puffin-fast: warning: ") for line in quiet.splitlines())
