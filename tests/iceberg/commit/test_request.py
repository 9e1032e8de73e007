"""Properties of a commit: strings, with names that are not reserved in the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.commit.changes import Changes, summarise, summary_keys
from tests.iceberg.conftest import refused, summary_of, unchanged
from tests.iceberg.verbs import REWRITES, ROWS, WRITES
from tests.kit.cases import each
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of, iceberg_table

if TYPE_CHECKING:
    from pyiceberg.table import Table


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


VERBS = WRITES | REWRITES


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    return iceberg_table(racing, ROWS)


@each("words", REFUSED)
@each("verb", VERBS)
def test_what_is_no_string_or_reserved_is_refused_before_anything_is_written(
    table: Table, verb: str, words: str
) -> None:
    with refused(table, InvalidInputError, words):
        VERBS[verb](table, **REFUSED[words])


@pytest.mark.parametrize("verb", VERBS)
def test_a_job_id_names_a_job_of_one_verb(table: Table, verb: str) -> None:
    """The same id under another verb would do nothing, silently."""
    other = "append" if verb == "delete" else "delete"
    VERBS[other](table, job_id="j", snapshot_properties={"run": "42", "empty": ""})
    recorded = summary_of(table)
    assert (recorded["run"], recorded["empty"], recorded["puffin-fast.job-id"]) == ("42", "", "j")
    snapshot = table.metadata.current_snapshot_id
    words = f"job_id 'j': expected a job of {verb}, found snapshot {snapshot}, which {other} committed"
    with refused(table, InvalidInputError, words):
        VERBS[verb](table, job_id="j")
    with unchanged(table):
        VERBS[other](table, job_id="j")


def test_a_job_id_without_a_verb_is_taken_for_the_job(racing: RacingCatalog) -> None:
    """As other programs and earlier versions wrote it."""
    table = racing.create_table("n.foreign", ROWS.schema)
    table.append(ROWS, snapshot_properties={"puffin-fast.job-id": "j"})
    iceberg.upgrade(table)
    for verb in VERBS.values():
        with unchanged(table):
            verb(table, job_id="j")


def test_a_job_id_of_another_verb_that_commits_first_is_refused(racing: RacingCatalog, table: Table) -> None:
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.delete(other, "id < 50", job_id="j"))
    with pytest.raises(InvalidInputError, match="expected a job of append"):
        iceberg.append(table, ROWS, job_id="j")
    data = {path for path in files_of(table) if path.suffix == ".parquet"}
    assert len(data) == 1


def test_all_keys_that_a_summary_may_have_are_reserved() -> None:
    assert set(summarise(Changes(), None)) <= summary_keys()
