"""`explain` counts what a scan does: the row groups that it reads, and all others by the step that leaves them out."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta, iceberg
from puffin_fast.rows.scan.explain import Explanation
from tests.iceberg.scans.explained import DATA, EACH, FILTERS, GROUP, KEYS, SCHEMA, N, read_by, rows, table
from tests.kit.faults import RacingCatalog
from tests.kit.tables import delta_table, iceberg_table, path_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

__all__ = ["table"]


def adds_up(found: Explanation, groups: set[tuple[str, int]]) -> None:
    """What is read are these row groups, and all steps together have the files and rows of the table."""
    assert (found.read.row_groups, found.read.data_files) == (len(groups), len({path for path, _ in groups}))
    parts = (*found.left_out, found.read)
    assert sum(part.data_files or 0 for part in parts) == found.table.data_files == N
    assert sum(part.rows or 0 for part in parts) == found.table.rows == N * EACH


def read_of_data(
    table: Table, work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> set[tuple[str, int]]:
    """The row groups of data files that are read, not those of position-delete files."""
    data = {task.data.file_path for task in iceberg.plan_files(table).tasks}
    return {(path, group) for path, group in read_by(work, monkeypatch) if path in data}


@pytest.mark.parametrize("row_filter", FILTERS)
def test_what_is_read_is_what_the_scan_reads(
    table: Table, monkeypatch: pytest.MonkeyPatch, row_filter: str
) -> None:
    found = iceberg.scan(table, row_filter, ["id"]).explain()
    scan = iceberg.scan(table, row_filter, ["id"])
    adds_up(found, read_of_data(table, scan.to_arrow, monkeypatch))
    live = [row for row in iceberg.scan(table).to_pylist() if FILTERS[row_filter](*row.values())]
    assert found.read.rows is not None
    assert found.read.rows >= len(live)


def test_each_step_says_what_it_leaves_out(table: Table) -> None:
    def steps(row_filter: str) -> dict[str, tuple[Any, ...]]:
        found = iceberg.scan(table, row_filter, ["id"]).explain()
        return {part.step: (part.data_files, part.row_groups, part.rows) for part in found.left_out[:4]}

    assert steps("part = 1")["partitions and bounds"] == (3, None, 3 * EACH)
    assert steps("id < 170") == {
        "partitions and bounds": (5, None, 5 * EACH),
        "deletes": (0, 1, 150),
        "row group statistics": (0, 3, 3 * GROUP),
        "columns": (0, 0, 0),
    }
    assert steps("s = 'x77'")["key index"] == (5, 4, N * EACH - 1)
    found = iceberg.scan(table, "id = 705").explain()
    assert found["key index"].rows == 0
    assert found["columns"].n_bytes == 0  # all are selected


def test_an_unusable_index_is_named(table: Table) -> None:
    for statistics in table.metadata.statistics:
        path_of(statistics.statistics_path).unlink()
    found = iceberg.scan(table, "s = 'x77'").explain()
    assert found["key index"].data_files == 0
    assert len(found.notes) == 1
    assert found.notes[0] in repr(found)


def test_the_text_and_the_page_have_the_numbers(table: Table) -> None:
    found = iceberg.scan(table, "s = 'x77'").explain()
    lines = repr(found).splitlines()
    assert lines[0].endswith("row_filter=s = 'x77'")
    assert [line.split("  ")[0] for line in lines[2:]] == [row["step"] for row in found.rows()]
    assert "3,000" in lines[2]
    assert "<td class=number>3,000</td>" in found._repr_html_()


def test_a_table_without_snapshots_reads_nothing(racing: RacingCatalog) -> None:
    found = iceberg.scan(racing.create_table("n.none", SCHEMA)).explain()
    assert (found.table.rows, found.read.data_files, found.left_out) == (0, 0, ())


def test_delta_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = delta_table(tmp_path / "t", DATA, partition=["part"])
    delta.delete(path, "id < 150")
    for row_filter in ("true", "part = 1", "id < 170", "id < 10", "s = 'x77'"):
        found = delta.scan(path, row_filter).explain()
        adds_up(found, read_by(delta.scan(path, row_filter).to_arrow, monkeypatch))
        assert found.table.n_bytes is not None
    verbs: list[Callable[[], Any]] = [
        lambda: delta.delete(path, "id < 170"),
        lambda: delta.delete_keys(path, pa.table({"id": [7, 705]}), "id"),
        lambda: delta.update(path, "part = 1 and id < 1000", {"s": "new"}),
        lambda: delta.upsert(path, rows(2700, 2705, 1), "id"),
    ]
    for verb in verbs:
        before, done = delta.scan(path).explain().table, list[Any]()
        groups = read_by(lambda done=done, verb=verb: done.append(verb()), monkeypatch)  # type: ignore[misc]
        of_verb = done[0].explanation
        assert (of_verb.read.row_groups, of_verb.table) == (len(groups), before)
        parts = (*of_verb.left_out, of_verb.read)
        assert sum(part.rows or 0 for part in parts) == of_verb.table.rows


VERBS: dict[str, Callable[[Table], Any]] = {
    "delete_keys": lambda table: iceberg.delete_keys(table, KEYS, "s"),
    "delete_keys of ids": lambda table: iceberg.delete_keys(table, pa.table({"id": [7, 705, 2999]}), "id"),
    "update": lambda table: iceberg.update(table, "id < 170", {"s": "new"}),
    "upsert": lambda table: iceberg.upsert(table, rows(2700, 2705, 1), "id"),
    "upsert by index": lambda table: iceberg.upsert(table, rows(2700, 2705, 1), "s", skip_unchanged=False),
    "overwrite": lambda table: iceberg.overwrite(table, rows(0, 5, 0), "id = 705 or part = 1"),
    **{f"delete {text}": lambda table, text=text: iceberg.delete(table, text) for text in FILTERS},  # type: ignore[misc]
}


@pytest.mark.parametrize("verb", VERBS)
def test_results_count_what_their_verb_reads(
    table: Table, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    done: list[Any] = []
    groups = read_of_data(table, lambda: done.append(VERBS[verb](table)), monkeypatch)
    adds_up(done[0].explanation, groups)


def test_results_name_the_step_that_decides(table: Table) -> None:
    assert iceberg.delete(table, "part = 1", dry_run=True).explanation["bounds of all rows"].data_files == 3  # type: ignore[index]
    found = iceberg.delete_keys(table, KEYS, "s", dry_run=True).explanation
    assert found is not None
    assert (found["key index"].data_files, found.read.data_files) == (3, 3)
    assert found.name.endswith("branch 'main'")


def test_bytes_of_files_that_an_index_leaves_out_are_not_known(table: Table) -> None:
    by_index = iceberg.delete_keys(table, KEYS, "s", dry_run=True).explanation
    assert by_index is not None
    assert (by_index.table.n_bytes, by_index["key index"].n_bytes) == (None, None)
    planned = iceberg.scan(table, "s = 'x77'").explain()
    assert planned["key index"].n_bytes


def test_without_keys_all_data_files_are_left_out(table: Table) -> None:
    found = iceberg.delete_keys(table, pa.table({"id": pa.array([], pa.int64())}), "id").explanation
    assert found is not None
    assert (found.table.data_files, found.table.rows, found.read.data_files) == (N, N * EACH, 0)
    assert (found.left_out[0].step, found.left_out[0].data_files) == ("partitions and bounds", N)


def test_without_a_search_there_is_no_explanation(table: Table) -> None:
    path = next(iter(iceberg.plan_files(table).tasks)).data.file_path
    positions = pa.table({"file_path": [path], "pos": [400]})
    assert iceberg.delete_positions(table, positions, dry_run=True).explanation is None


@pytest.mark.parametrize("workers", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_workers_count_what_they_read(table: Table, workers: type[Executor], tmp_path: Path) -> None:
    path = delta_table(tmp_path / "t", DATA)
    delta.delete(path, "id < 150")
    given = rows(2700, 2705, 1)
    verbs: list[Callable[[Any], Any]] = [
        *(
            lambda workers, text=text: iceberg.delete(table, text, workers=workers, dry_run=True)  # type: ignore[misc]
            for text in FILTERS
        ),
        lambda workers: iceberg.delete_keys(table, KEYS, "s", workers=workers, dry_run=True),
        lambda workers: iceberg.update(table, "id < 170", {"s": "new"}, workers=workers, dry_run=True),
        lambda workers: iceberg.upsert(table, given, "id", workers=workers, dry_run=True),
        lambda workers: iceberg.overwrite(table, given, "id = 705", workers=workers, dry_run=True),
        lambda workers: delta.delete(path, "id < 170", workers=workers, dry_run=True),
        lambda workers: delta.update(path, "part = 1", {"s": "new"}, workers=workers, dry_run=True),
    ]
    with workers(2) as pool:  # type: ignore[call-arg]
        for verb in verbs:
            expected = verb(None).explanation
            assert expected is not None
            assert verb(pool).explanation == expected


def test_keys_in_several_parts_are_counted_alike_by_workers(
    racing: RacingCatalog,
) -> None:
    table = iceberg_table(racing, DATA[:2], name="n.parts", version=2)
    keys = pa.table({"id": range(0, 2 * EACH, 3)})
    table.io.properties["puffin-fast.limit.key-bytes"] = "1000"
    with ThreadPoolExecutor(2) as pool:
        expected = iceberg.delete_keys(table, keys, "id", dry_run=True).explanation
        assert expected is not None
        assert iceberg.delete_keys(table, keys, "id", workers=pool, dry_run=True).explanation == expected


def test_each_verb_of_a_transaction_has_its_own(table: Table) -> None:
    with iceberg.transaction(table) as transaction:
        transaction.delete("id < 170")
        transaction.update("id = 2999", {"s": "new"})
    first, second = (result.explanation for result in transaction.results)
    assert (first.table.data_files, first.read.rows) == (N, 2 * GROUP)  # a delete searches deleted rows, too
    assert (second.table.data_files, second.read.rows) == (None, GROUP)  # staged files are not counted
