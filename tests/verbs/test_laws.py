"""The verbs mean the same for tables of each format: random ones leave the rows that a plain list has after them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta
from puffin_fast.errors import InvalidInputError, UnsupportedError
from tests.verbs.random_verbs import (
    OPERATIONS_OF,
    SCHEMA,
    TRACKED,
    AnyTable,
    DeltaTable,
    IcebergTable,
    Model,
    Single,
    agree,
    append,
)

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

OPERATIONS = 24


KINDS = (
    "iceberg",
    "iceberg partitioned",
    "iceberg 2",
    "delta",
    "delta partitioned",
    "delta mapped",
    "delta tracked",
)


@pytest.fixture(params=KINDS)
def made(
    request: pytest.FixtureRequest, tmp_path: Path, shared_catalog: SqlCatalog, namespace: str
) -> AnyTable:
    kind = request.param
    partition = ["g"] if kind.endswith(("partitioned", "tracked")) else []
    if kind.startswith("iceberg"):
        return IcebergTable(shared_catalog, namespace, partition, "2" if kind.endswith("2") else "3")
    mapped = {"delta.columnMapping.mode": "name"} if kind.endswith("mapped") else None
    return DeltaTable(tmp_path / "t", partition, TRACKED if kind.endswith("tracked") else mapped)


@pytest.mark.parametrize("seed", [1, 2])
def test_verbs_and_transactions_leave_the_rows_of_a_list(made: AnyTable, seed: int) -> None:
    chance, model = random.Random(seed), Model()
    for number in range(OPERATIONS):
        if number % 3 == 2:
            with made.verbs.transaction(made.table) as tx:
                for _ in range(chance.randrange(1, 5)):
                    chance.choice(OPERATIONS_OF)(made, tx, model, chance)
        else:
            (append if number < 2 else chance.choice(OPERATIONS_OF))(made, Single(made), model, chance)
        agree(made, model)
    for rows in made.others():
        assert sorted(rows, key=lambda one: one["id"]) == sorted(model.values(), key=lambda one: one["id"])


# What only one format has -----------------------------------------------------------------------------------


def test_a_new_delta_table_is_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t"
    made = delta.create_table(
        path,
        pa.schema(
            [pa.field("id", pa.int64(), nullable=False), ("a b", pa.timestamp("us")), ("p", pa.date32())]
        ),
        partition_columns=["p"],
        properties={"delta.columnMapping.mode": "name", "delta.enableInCommitTimestamps": "true", "own": "x"},
    )
    assert {"columnMapping", "deletionVectors", "timestampNtz"} == made.protocol.reader_features
    assert made.configuration["own"] == "x"
    delta.append(path, [{"id": 1, "a b": None, "p": None}])
    with pytest.raises(InvalidInputError, match="column id"):
        delta.append(path, [{"id": None}])
    with pytest.raises(InvalidInputError, match="already exists"):
        delta.create_table(path, SCHEMA)
    assert delta.scan(path).to_arrow().to_pylist() == [{"id": 1, "a b": None, "p": None}]
    assert delta.verify(path) == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"schema": pa.schema([("a b", pa.int64())])}, InvalidInputError, "column mapping"),
        ({"schema": pa.schema([("a", pa.int64()), ("A", pa.int64())])}, InvalidInputError, "apart from case"),
        ({"schema": pa.schema([("t", pa.time64("us"))])}, UnsupportedError, "column t"),
        ({"partition_columns": ["id", "g", "x", "s"]}, InvalidInputError, "others beside"),
        ({"partition_columns": ["s"]}, UnsupportedError, "column s"),
        ({"properties": {"delta.enableIcebergCompatV2": "true"}}, UnsupportedError, "IcebergCompat"),
        ({"properties": {"delta.enableChangeDataFeed": "yes"}}, InvalidInputError, "'yes'"),
    ],
)
def test_a_delta_table_that_cannot_be_is_refused(
    options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        delta.create_table(tmp_path / "t", **{"schema": SCHEMA, **options})
    assert not (tmp_path / "t").exists()


def test_a_streamed_append_writes_files_of_the_target_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta.create_table(tmp_path / "t", {"id": "long"})
    monkeypatch.setattr("puffin_fast.delta.dml.attempt.TARGET_FILE_SIZE", 800)
    batches = [pa.record_batch({"id": pa.array(range(at, at + 100))}) for at in range(0, 500, 100)]
    done = delta.append(tmp_path / "t", pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert (done.version, done.data_files_written) == (1, 5)
    assert sorted(one["id"] for one in delta.scan(tmp_path / "t").to_arrow().to_pylist()) == [*range(500)]
