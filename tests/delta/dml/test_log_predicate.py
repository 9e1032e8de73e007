"""Filters have values of rows: with ``log_predicate=False`` the log has none of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import delta, errors
from tests.delta.tables import commit_of
from tests.kit.rows import by_deltalake
from tests.kit.tables import delta_table

ROWS = pa.table({"id": range(20), "word": [f"w{i}" for i in range(20)]})
OTHER = pa.table({"id": [50], "word": ["other"]})
TEXT = "word = 'w7'"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return delta_table(tmp_path, ROWS)


def _in_transaction(verb: str, *arguments: Any) -> Callable[..., object]:
    def run(path: Path, **options: Any) -> None:
        with delta.transaction(path, **options) as transaction:
            getattr(transaction, verb)(*arguments)

    return run


VERBS: dict[str, Callable[..., object]] = {
    "delete": lambda path, **options: delta.delete(path, TEXT, **options),
    "update": lambda path, **options: delta.update(path, TEXT, {"word": "new"}, **options),
    "overwrite": lambda path, **options: delta.overwrite(path, OTHER, TEXT, **options),
    "delete in a transaction": _in_transaction("delete", TEXT),
    "update in a transaction": _in_transaction("update", TEXT, {"word": "new"}),
    "overwrite in a transaction": _in_transaction("overwrite", OTHER, TEXT),
}


@pytest.mark.parametrize("name", VERBS)
def test_the_log_has_the_filter_only_if_it_may(name: str, table: Path) -> None:
    VERBS[name](table, dry_run=True, log_predicate=False)
    VERBS[name](table, log_predicate=False)
    hidden, *_ = commit_of(table, 2)["commitInfo"]
    delta.append(table, ROWS)
    VERBS[name](table)
    logged, *_ = commit_of(table, 4)["commitInfo"]
    shown = TEXT if name.startswith("overwrite") else f'["{TEXT}"]'  # as in logs of Spark
    assert logged["operationParameters"].pop("predicate") == shown
    assert hidden["operationParameters"] == logged["operationParameters"]
    assert hidden["operation"] == logged["operation"]


VALUES: dict[str, Callable[[Path], object]] = {
    "delete_keys": lambda path: delta.delete_keys(path, pa.table({"word": ["w7"]}), "word"),
    "upsert": lambda path: delta.upsert(path, pa.table({"id": [70], "word": ["w7"]}), "word"),
    "several verbs": lambda path: _several(path),
}


def _several(path: Path) -> None:
    with delta.transaction(path) as transaction:
        transaction.delete(TEXT)
        transaction.update("word = 'w8'", {"word": "w7"})


@pytest.mark.parametrize("name", VALUES)
def test_other_commits_have_no_value_of_a_row(name: str, table: Path) -> None:
    VALUES[name](table)
    (info,) = commit_of(table, 2)["commitInfo"]
    assert "w7" not in str(info)


def test_the_option_is_a_bool(table: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match="log_predicate"):
        delta.delete(table, TEXT, log_predicate="no")  # type: ignore[arg-type]


def test_engines_read_a_log_without_filters(table: Path) -> None:
    import deltalake

    for name in ("delete", "update", "overwrite"):
        VERBS[name](table, log_predicate=False)
        delta.append(table, ROWS)
    assert len(by_deltalake(table)) == delta.scan(table).count()
    assert len(deltalake.DeltaTable(table).history()) == 8
