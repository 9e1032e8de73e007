"""Properties of a commit: strings, with names that are not reserved in the summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.commit.changes import Changes, summarise, summary_keys
from tests.iceberg.conftest import RacingCatalog, files_of
from tests.kit.cases import each

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
    "job_id: expected a string that is not empty, found '  '": {"job_id": "  "},
    "branch: expected a string that is not empty, found 5": {"branch": 5},
    "snapshot_properties: expected a mapping, found list": {"snapshot_properties": [("a", "b")]},
    "found 'run': 42": {"snapshot_properties": {"run": 42}},
    "found 'run': None": {"snapshot_properties": {"run": None}},
    "found 1: 'a'": {"snapshot_properties": {1: "a"}},
    "'operation' is reserved": {"snapshot_properties": {"operation": "append"}},
    "'total-records' is reserved": {"snapshot_properties": {"total-records": "1"}},
    "'added-data-files' is reserved": {"snapshot_properties": {"added-data-files": "1"}},
    "'puffin-fast.job-id' is reserved": {"snapshot_properties": {"puffin-fast.job-id": "x"}},
    "'puffin-fast.job-verb' is reserved": {"snapshot_properties": {"puffin-fast.job-verb": "x"}},
}


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    made = iceberg.create_table(racing, "n.t", ROWS.schema)
    iceberg.append(made, ROWS)
    return made


@each("words", REFUSED)
@each("verb", VERBS)
def test_what_is_no_string_or_reserved_is_refused_before_anything_is_written(
    table: Table, verb: str, words: str
) -> None:
    before, location = files_of(table), table.metadata_location
    with pytest.raises(InvalidInputError, match=words):
        VERBS[verb](table, **REFUSED[words])
    assert files_of(table) == before
    assert table.refresh().metadata_location == location


@pytest.mark.parametrize("verb", VERBS)
def test_a_job_id_names_a_job_of_one_verb(table: Table, verb: str) -> None:
    """The same id under another verb would do nothing, silently."""
    other = "append" if verb == "delete" else "delete"
    VERBS[other](table, job_id="j")
    before, snapshot = files_of(table), table.metadata.current_snapshot_id
    words = f"job_id 'j': expected a job of {verb}, found snapshot {snapshot}, which {other} committed"
    with pytest.raises(InvalidInputError, match=words):
        VERBS[verb](table, job_id="j")
    assert files_of(table) == before
    assert table.refresh().metadata.current_snapshot_id == snapshot
    VERBS[other](table, job_id="j")
    assert table.refresh().metadata.current_snapshot_id == snapshot


@pytest.mark.parametrize("verb", VERBS)
def test_a_job_id_without_a_verb_is_taken_for_the_job(racing: RacingCatalog, verb: str) -> None:
    """As other programs and earlier versions wrote it."""
    table = racing.create_table("n.foreign", ROWS.schema)
    table.append(ROWS, snapshot_properties={"puffin-fast.job-id": "j"})
    iceberg.upgrade(table)
    snapshot = table.metadata.current_snapshot_id
    VERBS[verb](table, job_id="j")
    assert table.refresh().metadata.current_snapshot_id == snapshot


def test_a_job_id_of_another_verb_that_commits_first_is_refused(racing: RacingCatalog, table: Table) -> None:
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.delete(other, "id < 50", job_id="j"))
    with pytest.raises(InvalidInputError, match="expected a job of append"):
        iceberg.append(table, ROWS, job_id="j")
    data = {path for path in files_of(table) if path.suffix == ".parquet"}
    assert len(data) == 1


def test_strings_are_recorded(table: Table) -> None:
    iceberg.delete(table, "id < 50", job_id="j", snapshot_properties={"run": "42", "empty": ""})
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    recorded = snapshot.summary.additional_properties
    assert (recorded["run"], recorded["empty"], recorded["puffin-fast.job-id"]) == ("42", "", "j")


def test_all_keys_that_a_summary_may_have_are_reserved() -> None:
    assert set(summarise(Changes(), None)) <= summary_keys()
