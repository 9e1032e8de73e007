"""Conversion between Delta and Iceberg: the same data files, vectors and rows in all readers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType

from puffin_fast import delta, errors, iceberg, open_table
from tests.delta.conftest import TABLES
from tests.delta.tables import Golden, alter
from tests.kit.rows import agreed, by_deltalake, by_duckdb, by_us, in_order
from tests.kit.tables import delta_table, files_of, iceberg_table, parts, path_of, sqlite_catalog

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = sqlite_catalog(tmp_path)
    yield made
    made.engine.dispose()


# To Iceberg ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_the_iceberg_table_has_the_rows_of_the_delta_table(
    name: str, golden: Golden, catalog: SqlCatalog, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = golden(name)
    rows, before = by_us(table), files_of(table)
    made = delta.to_iceberg(table, catalog, "n.t")
    assert made.metadata.format_version == 3
    assert agreed(made, duckdb_iceberg) == rows
    assert files_of(table) == before
    iceberg.delete(made, "id < 40")
    assert by_us(made) == [row for row in rows if row["id"] >= 40]
    assert by_us(table) == rows


@pytest.mark.parametrize("name", [name for name in TABLES if name != "hand_native"])
def test_the_vectors_are_copied_byte_for_byte(name: str, golden: Golden, catalog: SqlCatalog) -> None:
    table = golden(name)
    found = iceberg.deletes(delta.to_iceberg(table, catalog, "n.t"))
    copied = {}
    for row in found.to_pylist():
        data = Path(row["path"].removeprefix("file://")).read_bytes()[row["offset"] :]
        copied[row["data_file"].removeprefix("file://")] = data[: row["n_bytes"]]
    own = delta.vectors(table)
    assert copied == dict(zip(own["file_path"].to_pylist(), own["blob"].to_pylist(), strict=True))


def test_a_version_is_carried_as_it_was(partitioned: Path, catalog: SqlCatalog) -> None:
    made = delta.to_iceberg(partitioned, catalog, "n.old", version=1)
    assert made.scan().to_arrow().num_rows == 300
    assert delta.to_iceberg(partitioned, catalog, "n.empty", version=0).current_snapshot() is None


def test_types_that_iceberg_does_not_widen_are_refused(golden: Golden, catalog: SqlCatalog) -> None:
    change = '"metadata":{"delta.typeChanges":[{"fromType":"integer","toType":"double"}]}'

    def widen(metadata: dict[str, Any]) -> None:
        metadata["schemaString"] = metadata["schemaString"].replace('"metadata":{}', change, 1)

    table = golden("spark_v1_checkpoint")
    alter(table, "metaData", widen)
    with pytest.raises(errors.UnsupportedError, match="changed from integer to double"):
        delta.to_iceberg(table, catalog, "n.t", version=0)
    assert catalog.list_tables("n") == []


def test_names_that_iceberg_reserves_are_refused(tmp_path: Path, catalog: SqlCatalog) -> None:
    table = delta_table(tmp_path / "t", {"id": [1], "_row_id": [2]}, by="deltalake")
    with pytest.raises(errors.UnsupportedError, match="column _row_id: Iceberg reserves"):
        delta.to_iceberg(table, catalog, "n.t")
    assert catalog.list_tables("n") == []


def test_an_iceberg_table_that_is_there_is_refused(partitioned: Path, catalog: SqlCatalog) -> None:
    delta.to_iceberg(partitioned, catalog, "n.t")
    with pytest.raises(errors.InvalidInputError, match=r"n\.t"):
        delta.to_iceberg(partitioned, catalog, "n.t")
    assert catalog.load_table("n.t").scan().to_arrow().num_rows == 257


# From Iceberg ----------------------------------------------------------------------------------------------


def an_iceberg_table(catalog: SqlCatalog, **options: Any) -> Any:
    nested = pa.struct([("x", pa.int32()), ("l", pa.list_(pa.int64()))])
    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("s", nested)])
    rows = [{"id": i, "v": f"v {i % 2}", "s": {"x": i, "l": [i, None]}} for i in range(200)]
    table = iceberg_table(catalog, parts(pa.Table.from_pylist(rows, schema), 2), **options)
    iceberg.delete(table, "id < 30")
    return table


@pytest.mark.parametrize("spec", [(), ("v",), ("bucket[4](id)",)])
def test_the_delta_table_has_the_rows_of_the_iceberg_table(
    spec: tuple[str, ...], catalog: SqlCatalog, duckdb_delta: DuckDBPyConnection
) -> None:
    table = an_iceberg_table(catalog, partition=spec)
    with iceberg.v3_metadata(catalog), table.update_schema() as change:
        change.rename_column("v", "w")
    rows = by_us(table)
    made = path_of(delta.from_iceberg(table))
    assert agreed(made, duckdb_delta) == rows
    made_delta = open_table(made, format="Delta")
    made_delta.delete("id >= 150")
    made_delta.update("id = 40", {"w": "new"})
    wanted = [row | {"w": "new"} if row["id"] == 40 else row for row in rows if row["id"] < 150]
    assert by_us(made) == wanted
    assert by_us(table) == rows
    with pytest.raises(errors.InvalidInputError, match="a Delta table already exists"):
        delta.from_iceberg(table)


class Losing(MemoryFileSystem):
    """A file system that loses the answer to a commit."""

    error: BaseException

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path, value, mode=mode)
        if path.endswith(".json"):
            raise self.error


@pytest.mark.parametrize(
    "error", [FileExistsError(17, "a repeated request"), TimeoutError(), KeyboardInterrupt()]
)
def test_a_delta_table_whose_answer_was_lost_keeps_its_vectors(
    catalog: SqlCatalog, tmp_path: Path, error: BaseException
) -> None:
    table = an_iceberg_table(catalog)
    files = Losing(skip_instance_cache=True)
    files.error = error
    folder = f"/{tmp_path.name}"
    with nullcontext() if isinstance(error, Exception) else pytest.raises(KeyboardInterrupt):
        delta.from_iceberg(table, folder, filesystem=files)
    assert delta.vectors(folder, filesystem=files).num_rows == 1


def test_a_delta_table_elsewhere_names_files_by_their_uris(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = an_iceberg_table(catalog)
    made = delta.from_iceberg(table, str(tmp_path / "elsewhere"))
    assert all(path.startswith("file:///") for path in delta.snapshot(made).files["path"].to_pylist())
    assert by_us(made) == by_us(table)


def test_a_table_that_is_read_by_a_name_mapping_is_refused(
    golden: Golden, catalog: SqlCatalog, tmp_path: Path
) -> None:
    table = golden("spark_iceberg_compat_v3")
    made = delta.to_iceberg(table, catalog, "n.t")
    words = "column id is found by a name mapping, and has other names: col-"
    with pytest.raises(errors.UnsupportedError, match=words):
        delta.from_iceberg(made, str(tmp_path / "back"))


@pytest.mark.parametrize(
    "name", ["hand_inline", "spark_partitioned", "spark_v1_checkpoint", "spark_v2_checkpoint"]
)
def test_the_conversion_back_has_the_rows_of_the_delta_table(
    name: str,
    golden: Golden,
    catalog: SqlCatalog,
    tmp_path: Path,
    duckdb_delta: DuckDBPyConnection,
) -> None:
    table = golden(name)
    made = delta.to_iceberg(table, catalog, "n.t")
    iceberg.delete(made, "id < 40")
    iceberg.append(made, iceberg.scan(made, limit=1).to_arrow().slice(0, 1))
    rows = by_us(made)
    back = iceberg.to_delta(made, str(tmp_path))  # above all files: DuckDB reads only paths that are relative
    assert by_us(back) == rows
    assert delta.verify(back) == []
    assert by_duckdb(duckdb_delta, back, *rows[0]) == rows
    delta.delete(back, "id < 60")
    assert by_us(back) == [row for row in rows if row["id"] >= 60]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda schema: schema.rename_column("s.x", "y"), "column s.y .* other names: s.x"),
        (lambda schema: schema.delete_column("v"), "column v is found .* dropped column had the same name"),
    ],
    ids=["renamed", "dropped and added"],
)
def test_columns_that_names_do_not_find_in_all_files_are_refused(
    change: Any, message: str, catalog: SqlCatalog, tmp_path: Path
) -> None:
    rows = [
        {"id": i, "v": f"v {i}", "s": {"x": i}, "l": [{"y": i}], "m": [("k", {"z": i})]} for i in range(9)
    ]
    types = {
        "id": pa.int64(),
        "v": pa.string(),
        "s": pa.struct([("x", pa.int32())]),
        "l": pa.list_(pa.struct([("y", pa.int64())])),
        "m": pa.map_(pa.string(), pa.struct([("z", pa.int64())])),
    }
    given = pa.Table.from_pylist(rows, pa.schema(types.items()))
    source = delta_table(tmp_path / "source", given, by="deltalake")
    made = delta.to_iceberg(source, catalog, "n.t")
    back = iceberg.to_delta(made, str(tmp_path / "back"))
    assert by_us(back) == in_order(given)
    assert by_deltalake(source) == in_order(given)
    with iceberg.v3_metadata(catalog), made.update_schema(allow_incompatible_changes=True) as schema:
        change(schema)
    if "v" not in made.schema().column_names:
        with iceberg.v3_metadata(catalog), made.update_schema() as schema:
            schema.add_column("v", StringType())
    with pytest.raises(errors.UnsupportedError, match=message):
        iceberg.to_delta(made, str(tmp_path / "refused"))
    assert not (tmp_path / "refused").exists()


def test_partition_columns_that_files_may_lack_are_refused(
    golden: Golden, catalog: SqlCatalog, tmp_path: Path
) -> None:
    made = delta.to_iceberg(golden("spark_partitioned"), catalog, "n.t")
    name = made.spec().fields[0].name
    row = iceberg.scan(made, limit=1).to_arrow()
    with iceberg.v3_metadata(catalog), made.update_spec() as spec:
        spec.remove_field(name)
    iceberg.append(made, row)
    with pytest.raises(errors.UnsupportedError, match=f"may lack partition column {name}"):
        iceberg.to_delta(made, str(tmp_path / "refused"))


@pytest.mark.parametrize("value", ["", "😀"])
def test_a_partition_of_an_empty_text_which_would_be_null_is_refused(
    value: str, catalog: SqlCatalog, tmp_path: Path
) -> None:
    rows = pa.table({"id": [1, 2], "s": ["a", value]})
    table = iceberg_table(catalog, rows, partition=["s"])
    if value:
        made = delta.from_iceberg(table, tmp_path / "made")
        assert by_us(made) == rows.to_pylist()
        assert value in (tmp_path / "made/_delta_log/00000000000000000000.json").read_text("utf-8")
        return
    with pytest.raises(errors.InvalidInputError, match="column s: expected no empty text"):
        delta.from_iceberg(table, tmp_path / "made")
    assert not files_of(tmp_path / "made")


def test_iceberg_loads_to_delta_when_it_is_used() -> None:
    code = (
        "import sys, puffin_fast.iceberg as iceberg\n"
        "assert 'puffin_fast.delta' not in sys.modules\n"
        "import puffin_fast.delta as delta\n"
        "assert iceberg.to_delta is delta.from_iceberg\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("kind", "message"),
    [(pa.time64("us"), "type time"), (pa.uuid(), "type uuid"), (pa.binary(5), "type fixed")],
)
def test_types_that_delta_does_not_have_are_refused(
    kind: pa.DataType, message: str, catalog: SqlCatalog
) -> None:
    table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64()), ("x", kind)]))
    with pytest.raises(errors.UnsupportedError, match=message):
        delta.from_iceberg(table)
