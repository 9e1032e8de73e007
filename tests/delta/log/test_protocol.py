"""Tables whose vectors are enabled no longer, or whose rows may only be appended: what may be committed to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta, errors
from tests.delta.tables import Golden, commit_of, configure, ids, refused
from tests.kit.rows import agreed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

VERBS: dict[str, Callable[..., Any]] = {
    "delete": lambda table, **options: delta.delete(table, "id < 30", **options),
    "delete_keys": lambda table, **options: delta.delete_keys(table, pa.table({"id": [1]}), "id", **options),
    "update": lambda table, **options: delta.update(table, "id < 30", {"v": "x"}, **options),
    "upsert": lambda table, **options: delta.upsert(table, row(1), "id", **options),
}


def row(id: int, v: str = "x") -> pa.Table:
    return pa.table({"id": [id], "v": [v], "part": ["p 1"]})


def has_vectors(table: Path) -> bool:
    return any(delta.scan(table).files()["vector_path"].is_valid().to_pylist())


@pytest.fixture
def disabled(golden: Golden) -> Path:
    """A table that has vectors, and a property that enables no new ones."""
    table = golden("spark_partitioned")
    configure(table, enableDeletionVectors="false")
    assert has_vectors(table)
    return table


@pytest.mark.parametrize("verb", VERBS)
def test_what_needs_a_new_vector_is_refused(verb: str, disabled: Path) -> None:
    for dry_run in (False, True):
        with refused(disabled, errors.UnsupportedError, r"not enabled; puffin_fast.delta.enable"):
            VERBS[verb](disabled, dry_run=dry_run)


def test_a_purge_needs_no_vector(disabled: Path, duckdb_delta: DuckDBPyConnection) -> None:
    before = ids(disabled)
    assert delta.purge(disabled, min_deleted=1e-9).rows_purged > 0
    assert not has_vectors(disabled)
    assert [row["id"] for row in agreed(disabled, duckdb_delta)] == before


@pytest.mark.parametrize("row_filter", ["id >= 0", "part = 'p 1'", "v is not null and part = 'p 1'"])
def test_a_delete_of_whole_files_needs_no_vector(row_filter: str, disabled: Path) -> None:
    gone = set(ids(disabled, row_filter=row_filter))
    left = set(ids(disabled)) - gone
    done = delta.delete(disabled, row_filter)
    assert (done.rows_deleted, done.vectors_written) == (len(gone), 0)
    assert set(ids(disabled)) == left
    assert "deletionVector" in json.dumps(commit_of(disabled, done.commit.id or 0)["remove"])


def test_an_update_of_whole_files_needs_no_vector(disabled: Path) -> None:
    before = ids(disabled)
    assert delta.update(disabled, "part = 'p 1'", {"v": "x"}).vectors_written == 0
    assert delta.scan(disabled, "part = 'p 1' and v != 'x'").count() == 0
    assert ids(disabled) == before


def test_rows_that_may_only_be_appended_may_move_and_do_not_change(partitioned: Path) -> None:
    """The protocol forbids `remove` actions that change data; a purge moves rows."""
    configure(partitioned, appendOnly="true")
    before = ids(partitioned)
    assert delta.purge(partitioned, min_deleted=1e-9).rows_purged > 0
    assert ids(partitioned) == before
    configure(partitioned, enableDeletionVectors="false")
    assert delta.upsert(partitioned, row(90_001), "id").rows_inserted == 1
    assert ids(partitioned) == [*before, 90_001]
    for change in (
        lambda: delta.delete(partitioned, "id >= 0"),
        lambda: delta.upsert(partitioned, row(90_001, "y"), "id"),
    ):
        with refused(partitioned, errors.UnsupportedError, "appendOnly"):
            change()
