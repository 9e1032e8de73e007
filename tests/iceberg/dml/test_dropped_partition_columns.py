"""Tables whose partition spec refers to a dropped column: void fields need none."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError
from tests.iceberg.conftest import RacingCatalog, local, rows_of

ROWS = pa.table({"id": range(10), "part": ["a", "b"] * 5})


def dropped(catalog: RacingCatalog, transform: str, *, is_known: bool = True) -> Table:
    """A table whose column was dropped after the spec got another transform.

    Args:
        catalog: of the table.
        transform: of the column.
        is_known: an earlier schema has the column, and a spec its identity, of which the table has two files.
    """
    table = catalog.create_table("n.t", ROWS.schema, properties={"format-version": "2"})
    with table.update_spec() as update:
        update.add_identity("part")
    if is_known:
        iceberg.append(table, ROWS)
    with table.update_spec() as update:
        update.remove_field("part")
    with table.update_schema() as update:
        update.delete_column("part")
    path = local(table.metadata_location)
    document = json.loads(path.read_bytes())
    field = {"name": "part", "transform": transform, "source-id": 2, "field-id": 1000}
    document["partition-specs"].append({"spec-id": 7, "fields": [field]})
    document["default-spec-id"] = 7
    if not is_known:
        document["schemas"] = [
            schema for schema in document["schemas"] if schema["schema-id"] == document["current-schema-id"]
        ]
    path.write_text(json.dumps(document))
    return catalog.load_table("n.t")


@pytest.mark.parametrize("is_known", [True, False])
def test_void_of_a_dropped_column_is_written_by_all_verbs(racing: RacingCatalog, is_known: bool) -> None:
    table = dropped(racing, "void", is_known=is_known)
    new = pa.table({"id": range(10, 14)})
    assert iceberg.append(table, new, dry_run=True) is None
    iceberg.append(table, new)
    iceberg.delete(table, "id in (0, 10)")
    iceberg.update(table, "id = 11", {"id": 101})
    iceberg.upsert(table, pa.table({"id": [12, 20]}), join_cols=["id"])
    iceberg.rewrite_data_files(table, min_deleted=0.01)
    assert iceberg.verify(table) == []
    expected = [*(range(1, 10) if is_known else ()), 12, 13, 20, 101]
    assert rows_of(table)["id"].to_pylist() == expected
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == expected
    iceberg.overwrite(table, new)
    assert rows_of(table)["id"].to_pylist() == [10, 11, 12, 13]


def test_fields_of_type_unknown_are_valid_avro(racing: RacingCatalog) -> None:
    table = dropped(racing, "void", is_known=False)
    iceberg.append(table, pa.table({"id": [1]}))
    (manifest,) = table.inspect.manifests()["path"].to_pylist()
    reader: Any = fastavro.reader(BytesIO(local(manifest).read_bytes()))
    assert '"null", "null"' not in reader.metadata["avro.schema"]
    assert next(reader)["data_file"]["partition"] == {"part": None}


def test_other_transforms_of_a_dropped_column_are_refused(racing: RacingCatalog) -> None:
    table = dropped(racing, "bucket[4]")
    for dry_run in (True, False):
        with pytest.raises(CorruptDataError, match="source-id of field part: expected a column of schema"):
            iceberg.append(table, pa.table({"id": [1]}), dry_run=dry_run)
