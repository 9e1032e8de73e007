"""``puffin-fast changes``: counts and rows of the changes of Iceberg and Delta tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from puffin_fast import delta, iceberg
from puffin_fast.cli import main

Run = Callable[..., Result]

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "word": ["new"] * 10})
FORMATS = ("iceberg", "delta")
NUMBER = {"iceberg": "snapshot_id", "delta": "version"}


class Made:
    """A table with an append of 10 rows, a delete of 3, an update of 2 and a delete of 1 of these."""

    def __init__(self, arguments: tuple[str, ...], table: Any, module: Any, states: list[int]) -> None:
        self.arguments, self.table, self.module, self.states = arguments, table, module, states


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    from pyiceberg.catalog import load_catalog

    folder = tmp_path_factory.mktemp("changes")
    options = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/tables"}
    catalog = load_catalog("c", **options)
    catalog.create_namespace("ns")
    table = iceberg.create_table(catalog, "ns.t", ROWS.schema)
    path = str(folder / "delta")
    delta.create_table(path, ROWS.schema, properties={"delta.enableRowTracking": "true"})
    states: dict[str, list[int]] = {"iceberg": [], "delta": []}
    for module, one in ((iceberg, table), (delta, path)):
        for step in (
            lambda m, t: m.append(t, ROWS),
            lambda m, t: m.delete(t, "id < 3"),
            lambda m, t: m.update(t, "id in (5, 6)", {"word": "paid"}),
            lambda m, t: m.delete(t, "id = 5"),
        ):
            step(module, one)
            now = delta.snapshot(path).version if module is delta else table.current_snapshot().snapshot_id
            states["delta" if module is delta else "iceberg"].append(now)
    catalog.close()
    named = (
        "ns.t",
        "--catalog",
        "c",
        *(part for key, value in options.items() for part in (f"--{key}", value)),
    )
    return {
        "iceberg": Made(named, table, iceberg, states["iceberg"]),
        "delta": Made((path,), path, delta, states["delta"]),
    }


def counts_of(result: Result, name: str) -> list[tuple[int, int, int, int]]:
    assert result.exit_code == 0, result.stderr
    keys = (NUMBER[name], "inserts", "deletes", "updates")
    return [tuple(row[key] for key in keys) for row in json.loads(result.stdout)]  # type: ignore[misc]


@pytest.mark.parametrize("name", FORMATS)
def test_each_commit_is_counted_and_the_state_before_is_excluded(
    run: Run, tables: dict[str, Made], name: str
) -> None:
    made = tables[name]
    changes = ("changes", *made.arguments, "--output", "json")
    first, second, third, fourth = made.states
    expected = [(first, 10, 0, 0), (second, 0, 3, 0), (third, 0, 0, 2), (fourth, 0, 1, 0)]
    assert counts_of(run(*changes), name) == expected
    assert (
        counts_of(run(*changes, "--from-snapshot-id", first, "--to-snapshot-id", third), name)
        == expected[1:3]
    )
    assert counts_of(run(*changes, "--from-snapshot-id", fourth), name) == []
    times = [row["timestamp_ms"] for row in json.loads(run(*changes).stdout)]
    ends = ("--from-timestamp", times[0], "--to-timestamp", times[2])
    in_range = [row for row, time in zip(expected, times, strict=True) if times[0] < time <= times[2]]
    assert counts_of(run(*changes, *ends), name) == in_range


@pytest.mark.parametrize("name", FORMATS)
def test_options_are_those_of_the_function(run: Run, tables: dict[str, Made], name: str) -> None:
    made = tables[name]
    first, _, third, fourth = made.states
    changes = ("changes", *made.arguments, "--output", "json", "--from-snapshot-id", first)
    assert counts_of(run(*changes, "--net"), name) == [(fourth, 0, 4, 1)]
    backwards = ("changes", *made.arguments, "--output", "json", "--net", "--from-snapshot-id", fourth)
    assert counts_of(run(*backwards, "--to-snapshot-id", first), name) == [(first, 4, 0, 1)]
    assert counts_of(run(*changes, "--no-updates"), name)[1] == (third, 2, 2, 0)
    assert counts_of(run(*changes, "--row-filter", "word = 'paid'"), name) == [
        (third, 2, 0, 0),
        (fourth, 0, 1, 0),
    ]
    assert [row[1:] for row in counts_of(run(*changes, "--selected-fields", "id"), name)] == [
        (0, 3, 0),
        (0, 1, 0),
    ]
    by_key = (
        *changes,
        "--join-col",
        "id",
        "--selected-fields",
        "ID,WORD",
        "--case-insensitive",
        "--threads",
        1,
    )
    assert counts_of(run(*by_key, "--to-snapshot-id", third), name)[1] == (third, 0, 0, 2)


@pytest.mark.parametrize("name", FORMATS)
def test_rows_go_to_a_file_or_standard_output(
    run: Run, tables: dict[str, Made], name: str, tmp_path: Path
) -> None:
    made = tables[name]
    expected = made.module.changes(made.table).to_arrow()
    changes = ("changes", *made.arguments)
    target = tmp_path / "rows.parquet"
    (done,) = json.loads(run(*changes, "--to", target, "--output", "json").stdout)
    assert (done["file"], done["rows"]) == (str(target), expected.num_rows)
    assert pq.read_table(target).to_pylist() == expected.to_pylist()
    words = list(zip(expected["id"].to_pylist(), expected["_change_type"].to_pylist(), strict=True))
    lines = [json.loads(line) for line in run(*changes, "--to", "-").stdout.splitlines()]
    assert [(row["id"], row["_change_type"]) for row in lines] == words
    read = list(csv.DictReader(io.StringIO(run(*changes, "--to", "-", "--output", "csv").stdout)))
    assert [(int(row["id"]), row["_change_type"]) for row in read] == words


@pytest.mark.parametrize("name", FORMATS)
def test_counts_are_a_table_by_default(run: Run, tables: dict[str, Made], name: str) -> None:
    made = tables[name]
    text = run("changes", *made.arguments).stdout
    for word in ("time (UTC)", NUMBER[name], "inserts", "deletes", "updates", str(made.states[0])):
        assert word in text
    nothing = run("changes", *made.arguments, "--from-snapshot-id", made.states[-1]).stdout
    assert nothing.endswith(": no changes\n")
    rows = list(csv.DictReader(io.StringIO(run("changes", *made.arguments, "--output", "csv").stdout)))
    assert [row["inserts"] for row in rows] == ["10", "0", "0", "0"]


def test_bad_ranges_and_files_are_errors(run: Run, tables: dict[str, Made], tmp_path: Path) -> None:
    for made in tables.values():
        for wrong in (
            ("--to-snapshot-id", 99),
            ("--from-snapshot-id", -7),
            ("--from-timestamp", "yesterday"),
            ("--from-snapshot-id", made.states[0], "--from-timestamp", 1),
            ("--to", tmp_path / "rows.txt"),
        ):
            result = run("changes", *made.arguments, *wrong)
            assert (result.exit_code, result.stdout) == (1, ""), wrong
    for wrong, message in (
        (("--from-snapshot-id", 9), "no version 9, the newest is 4"),
        (("--from-snapshot-id", 3, "--to-snapshot-id", 1), "--from-snapshot-id=3: expected at most 1"),
    ):
        assert message in run("changes", *tables["delta"].arguments, *wrong).stderr
    made = tables["iceberg"]
    backwards = ("--from-snapshot-id", made.states[1], "--to-snapshot-id", made.states[0])
    both = ("--from-snapshot-id", made.states[0], "--from-timestamp", 1)
    for wrong, message in (
        (backwards, f"--from-snapshot-id={made.states[1]}: expected an ancestor"),
        (backwards, "with --net any two snapshots are compared"),
        (both, "--from-snapshot-id and --from-timestamp: expected at most one of them"),
    ):
        assert message in run("changes", *made.arguments, *wrong).stderr
    refused = run("changes", *tables["delta"].arguments, "--branch", "audit")
    assert refused.exit_code == 1
    assert "tables of Delta have no --branch" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_tables_and_key_columns_are_completed(tables: dict[str, Made]) -> None:
    from click.shell_completion import ShellComplete

    table, *options = tables["iceberg"].arguments
    program = ShellComplete(main, {}, "puffin-fast", "_PUFFIN_FAST_COMPLETE")
    offered = [item.value for item in program.get_completions([*options, "changes"], "ns")]
    assert offered == [table]
    keys = program.get_completions(["changes", *options, table, "--join-col"], "i")
    assert [item.value for item in keys] == ["id"]
