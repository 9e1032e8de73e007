"""Tables that `create_table` makes, what it refuses, and appends to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import delta
from puffin_fast.errors import InvalidInputError, UnsupportedError

SCHEMA = pa.schema(
    [("id", pa.int64()), ("g", pa.string()), ("x", pa.float64()), ("s", pa.struct([("a", pa.int32())]))]
)


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
    assert (done.commit.id, done.data_files_written) == (1, 5)
    assert sorted(one["id"] for one in delta.scan(tmp_path / "t").to_arrow().to_pylist()) == [*range(500)]
