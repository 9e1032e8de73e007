"""What a caller may say about a commit: strings, under names that the summary has not for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.commit.changes import Changes, summarise, summary_keys
from tests.iceberg.conftest import RacingCatalog, files_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

ROWS = pa.table({"id": pa.array(range(100), pa.int64())})

VERBS: dict[str, Callable[..., object]] = {
    "append": lambda table, **more: iceberg.append(table, pa.table({"id": [500]}), **more),
    "compact": iceberg.compact,
    "convert_equality_deletes": iceberg.convert_equality_deletes,
    "convert_position_deletes": iceberg.convert_position_deletes,
    "delete": lambda table, **more: iceberg.delete(table, "id < 50", **more),
    "delete_keys": lambda table, **more: iceberg.delete_keys(table, pa.table({"id": [3]}), "id", **more),
    "delete_positions": lambda table, **more: iceberg.delete_positions(
        table, pa.table({"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64())}), **more
    ),
    "repair": iceberg.repair,
    "upsert": lambda table, **more: iceberg.upsert(table, pa.table({"id": [3, 700]}), "id", **more),
}

REFUSED: dict[str, dict[str, Any]] = {
    "job_id: expected a string": {"job_id": 42},
    "job_id: expected a string that is not empty, found ''": {"job_id": ""},
    "snapshot_properties: expected a mapping, found list": {"snapshot_properties": [("a", "b")]},
    "found 'run': 42": {"snapshot_properties": {"run": 42}},
    "found 'run': None": {"snapshot_properties": {"run": None}},
    "found 1: 'a'": {"snapshot_properties": {1: "a"}},
    "'operation' is reserved": {"snapshot_properties": {"operation": "append"}},
    "'total-records' is reserved": {"snapshot_properties": {"total-records": "1"}},
    "'added-data-files' is reserved": {"snapshot_properties": {"added-data-files": "1"}},
    "'puffin-fast.job-id' is reserved": {"snapshot_properties": {"puffin-fast.job-id": "x"}},
}


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    made = iceberg.create_table(racing, "n.t", ROWS.schema)
    iceberg.append(made, ROWS)
    return made


@pytest.mark.parametrize("words", REFUSED)
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_string_or_reserved_is_refused_before_anything_is_written(
    table: Table, verb: str, words: str
) -> None:
    before, location = files_of(table), table.metadata_location
    with pytest.raises(InvalidInputError, match=words):
        VERBS[verb](table, **REFUSED[words])
    assert files_of(table) == before
    assert table.refresh().metadata_location == location


def test_strings_are_recorded(table: Table) -> None:
    iceberg.delete(table, "id < 50", job_id="j", snapshot_properties={"run": "42", "empty": ""})
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    recorded = snapshot.summary.additional_properties
    assert (recorded["run"], recorded["empty"], recorded["puffin-fast.job-id"]) == ("42", "", "j")


def test_all_keys_that_a_summary_may_have_are_reserved() -> None:
    assert set(summarise(Changes(), None)) <= summary_keys()
