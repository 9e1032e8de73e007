"""Checkpoints whose strings have encodings that PyArrow does not decode to dictionaries."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, errors
from puffin_fast.delta.log import checkpoint
from tests.delta.tables import Golden

ENCODINGS = ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"]


def texts_of(schema: pq.ParquetSchema) -> list[str]:
    columns = (schema.column(at) for at in range(len(schema)))
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def encoded(rows: pa.Table, path: Path, encoding: str, **options: object) -> None:
    """Writes a checkpoint whose strings have one encoding."""
    pq.write_table(rows.slice(0, 0), path)
    names = texts_of(pq.read_metadata(path).schema)
    options = {"use_dictionary": False, "data_page_version": "2.0"} | options
    pq.write_table(rows, path, column_encoding=dict.fromkeys(names, encoding), **options)


def many(table: Path, n_files: int) -> tuple[Path, pa.Table]:
    """The checkpoint of a table, and its rows with more `add` actions of live files under other paths."""
    (file,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(file)
    (old,) = [row for row in rows["add"].to_pylist() if row][:1]
    names = (uuid.uuid5(uuid.NAMESPACE_OID, str(at)) for at in range(n_files))
    more = [{**old, "path": f"part=p%200/{name}-long.parquet"} for name in names]
    added = pa.table({"add": pa.array(more, rows.schema.field("add").type)})
    return file, pa.concat_tables([rows, added], promote_options="default")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_checkpoints_of_many_files_are_read(encoding: str, version: str, golden: Golden) -> None:
    table = golden("spark_v1_checkpoint")
    before = delta.snapshot(table).files.num_rows
    file, rows = many(table, 3000)
    encoded(rows, file, encoding, data_page_version=version, row_group_size=2000)
    found = delta.snapshot(table)
    assert found.files.num_rows == before + 3000
    paths = {action["path"] for action in rows["add"].to_pylist() if action}
    assert paths >= {path for path in found.files["path"].to_pylist() if "long" in path}
    assert len(found.adds(range(found.files.num_rows))) == before + 3000


def test_row_groups_may_differ_in_encoding(golden: Golden) -> None:
    """Where the dictionary becomes too large, writers go on with another encoding."""
    table = golden("spark_v1_checkpoint")
    file, rows = many(table, 3000)
    parts = [rows.slice(0, 2500), rows.slice(2500)]
    for at, (part, encoding) in enumerate(zip(parts, ENCODINGS, strict=False)):
        encoded(part, file.with_name(f"{2:020d}.checkpoint.{at + 1:010d}.{2:010d}.parquet"), encoding)
    file.unlink()
    assert delta.snapshot(table).files.num_rows >= 3000


def test_sidecars_are_read(golden: Golden) -> None:
    table = golden("spark_v2_checkpoint")
    before = delta.scan(table).count()
    for file in (table / "_delta_log" / "_sidecars").glob("*.parquet"):
        encoded(pq.read_table(file), file, "DELTA_BYTE_ARRAY")
    assert delta.scan(table).count() == before


def test_values_that_repeat_their_beginning_have_a_limit(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DELTA_BYTE_ARRAY stores a common beginning once: 200 bytes of a file may become a gigabyte."""
    monkeypatch.setattr(checkpoint, "_LEAST_DECODED", 1 << 20)
    table = golden("spark_v1_checkpoint")
    file, rows = many(table, 3000)
    stats = pa.array(
        [None if not row else '{"numRecords":100}' + " " * 20_000 for row in rows["add"].to_pylist()]
    )
    fields = {field.name: pc.struct_field(rows["add"], field.name) for field in rows.schema.field("add").type}
    arrays = [
        one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one
        for one in (fields | {"stats": stats}).values()
    ]
    add = pa.StructArray.from_arrays(arrays, list(fields), mask=rows["add"].combine_chunks().is_null())
    encoded(rows.set_column(rows.schema.get_field_index("add"), "add", add), file, "DELTA_BYTE_ARRAY")
    with pytest.raises(errors.LimitExceededError, match="decoded bytes"):
        delta.snapshot(table)
