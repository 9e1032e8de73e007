"""Errors of files of rows name the file, the row and the column, and never print a value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from puffin_fast import delta
from tests.cli.conftest import ROWS, Shell
from tests.kit.cases import each

Run = Callable[..., Result]

SECRET = "hunter2"

WRONG = {
    "a text in place of a number": (
        "x.csv",
        f"id,word\n1,a\n{SECRET},b\n",
        "row 2: column id: expected int64",
    ),
    "a number that is too great": ("x.csv", f"id,word\n{10**30},b\n", "row 1: column id: expected int64"),
    "a row of another length": ("x.csv", f"id,word\n1,a\n2,{SECRET},c\n", "a row has 3 columns, expected 2"),
    "a text of JSON in place of a number": (
        "x.jsonl",
        f'{{"id": "{SECRET}", "word": "a"}}',
        "line 1: column id",
    ),
    "a list of JSON in place of a text": ("x.json", f'[{{"id": 1, "word": ["{SECRET}"]}}]', "found an array"),
    "a line that is no JSON": ("x.jsonl", f'{{"id": 1, {SECRET}}}', "line 1: expected a JSON object"),
}


@each("name, text, message", WRONG.values(), ids=WRONG)
def test_an_error_has_no_value(shell: Shell, tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    for command in (("append", "ns.t"), ("delete-keys", "ns.t", "--join-col", "id")):
        said = shell.refused(*command, tmp_path / name)
        assert (name in said, message in said) == (True, True), said
        assert SECRET not in said
        assert str(10**30) not in said


def test_the_row_of_a_wrong_value_is_counted_over_the_blocks_of_a_file(run: Run, tmp_path: Path) -> None:
    table, n_rows = tmp_path / "d1", 300_000
    delta.create_table(table, ROWS.schema)
    lines = (
        f"{number},a text that is long enough for two blocks of a file, {number}\n"
        for number in range(n_rows)
    )
    (tmp_path / "x.csv").write_text("id,word\n" + "".join(lines).replace(", ", " ") + f"{SECRET},a\n")
    done = run("append", table, tmp_path / "x.csv")
    assert f"row {n_rows + 1}: column id: expected int64, found a text of 7 characters" in done.stderr
    assert delta.snapshot(table).version == 0


def test_a_time_with_nanoseconds_says_what_is_too_long(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("time\n2026-01-01T00:00:00.5\n")
    table = f"{tmp_path}/d1"
    assert run("create", table, path).exit_code == 0
    path.write_text("time\n2026-01-01T00:00:00.123456789\n")
    done = run("append", table, path)
    assert done.exit_code == 1
    assert "found a text of 29 characters with more than 6 digits of a second" in done.stderr
