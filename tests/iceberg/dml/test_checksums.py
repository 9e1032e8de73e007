"""Every page of every new file has its CRC-32, every verb compares it, and encrypted files are unsupported."""

from __future__ import annotations

import ast
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import puffin_fast
from puffin_fast import delta, iceberg
from puffin_fast.cli._files import rows as rows_of_file
from puffin_fast.errors import CorruptDataError, UnsupportedError
from tests.conftest import require_module
from tests.iceberg.conftest import unchanged
from tests.kit import thrift
from tests.kit.tables import delta_table, files_of, golden_table, iceberg_table, path_of
from tests.rows.deletes.equality_deletes import delete_equal

N_ROWS = 90
ROWS = pa.table(
    {
        "id": pa.array(range(N_ROWS), pa.int64()),
        "part": pa.array([n % 2 for n in range(N_ROWS)], pa.int64()),
        "items": [[n] for n in range(N_ROWS)],
    }
)

CHANGED = ROWS.set_column(0, "id", pa.array([n + 80 for n in range(N_ROWS)]))
"""Rows of which some have the key of another one."""


def check_parquet(files: Any) -> int:
    """Checks that each page of Parquet files has its CRC-32; returns the number of files."""
    n_files = 0
    for path in files:
        if path.suffix == ".parquet":
            data = path.read_bytes()
            for page in thrift.pages_of(data):
                found = thrift.get(page.header, 4)
                assert found is not None, (path, page)
                assert found & 0xFFFFFFFF == zlib.crc32(data[page.body : page.stop])
            n_files += 1
    return n_files


@pytest.mark.parametrize("version", [2, 3])
def test_each_verb_writes_checksums(shared_catalog: SqlCatalog, namespace: str, version: int) -> None:
    writer = "pyiceberg" if version == 2 else "us"
    table = iceberg_table(shared_catalog, ROWS, name=f"{namespace}.t", version=version, by=writer)
    before = files_of(table) if version == 2 else set[Path]()
    verbs: dict[str, Callable[[], object]] = {
        "delete": lambda: iceberg.delete(table, "id < 3"),
        "update": lambda: iceberg.update(table, "id < 20", {"part": 7}),
        "upsert": lambda: iceberg.upsert(table, CHANGED, join_cols=["id"]),
        "overwrite": lambda: iceberg.overwrite(table, ROWS.slice(0, 9), "id < 9"),
        "append": lambda: iceberg.append(table, ROWS.slice(0, 5).to_reader()),
        "rewrite": lambda: iceberg.rewrite_data_files(table, sort_by=["id"]),
    }
    for verb, run in verbs.items():
        if version == 2 and verb in ("append",):
            continue
        old = files_of(table)
        run()
        table.refresh()
        new = files_of(table) - old
        assert check_parquet(new - before) or (verb == "delete" and version == 3), verb
    assert check_parquet(files_of(table) - before) >= 4


def test_the_writers_of_delta_tables_write_checksums(tmp_path: Path) -> None:
    path = delta_table(tmp_path / "t", ROWS.drop_columns(["items"]), partition=["part"], by="deltalake")
    delta.enable(path)
    before = set(path.rglob("*.parquet"))
    delta.update(path, "id = 4", {"id": 1000})
    delta.upsert(path, CHANGED.drop_columns(["items"]), join_cols=["id"])
    delta.purge(path)
    assert check_parquet(set(path.rglob("*.parquet")) - before) >= 3


def damage_is_named(file: Path, column: str, *runs: Callable[[], object], path: str = "") -> None:
    """Changes a bit in a page of a column, and checks that each function says in which file, page and column."""
    before = file.read_bytes()
    data = bytearray(before)
    page = next(page for page in thrift.pages_of(data) if page.column == column)
    data[page.stop - 1] ^= 1
    file.write_bytes(data)
    expected, found = thrift.get(page.header, 4) & 0xFFFFFFFF, zlib.crc32(data[page.body : page.stop])
    message = (
        f"offset {page.at}: CRC-32 of a page of column {column}: expected {expected:08x}, found {found:08x}"
    )
    for run in runs:
        with pytest.raises(CorruptDataError) as caught:
            run()
        assert str(caught.value).endswith(f"{path or file}: {message}")
    file.write_bytes(before)


def data_file(table: Table) -> Path:
    (path,) = table.inspect.data_files()["file_path"].to_pylist()
    return path_of(path)


@pytest.mark.parametrize(("leaf", "column"), [("id", "id"), ("items.list.element", "items")])
def test_each_verb_compares_the_pages_that_it_reads(
    shared_catalog: SqlCatalog, namespace: str, leaf: str, column: str
) -> None:
    table = iceberg_table(shared_catalog, ROWS, name=f"{namespace}.t")
    verbs: list[Callable[[], object]] = [
        lambda: iceberg.scan(table).to_arrow(),
        lambda: iceberg.update(table, "part = 1", {"part": 7}),
        lambda: iceberg.rewrite_data_files(table, sort_by=["id"]),
    ]
    if column == "id":
        verbs += [
            lambda: iceberg.delete(table, "id > 3 and id < 80"),
            lambda: iceberg.delete_keys(table, pa.table({"id": [5]}), join_cols=["id"]),
            lambda: iceberg.upsert(table, ROWS.slice(3), join_cols=["id"]),
            lambda: iceberg.collect_ndv(table),
        ]
    with unchanged(table):
        damage_is_named(data_file(table), leaf, *verbs)


def test_position_deletes_are_compared(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = iceberg_table(shared_catalog, ROWS, name=f"{namespace}.t", version=2)
    iceberg.delete(table, "id < 30")
    (path,) = table.inspect.delete_files()["file_path"].to_pylist()
    for column in ("pos", "file_path"):
        damage_is_named(path_of(path), column, lambda: iceberg.scan(table).to_arrow(), path=path)


def with_checksums(file: Path) -> Path:
    """A file with the checksums that its writer left out."""
    file.write_bytes(thrift.with_checksums(file.read_bytes()))
    return file


def test_checkpoints_and_data_files_of_delta_tables_are_compared(tmp_path: Path) -> None:
    path = delta_table(tmp_path / "t", ROWS.drop_columns(["items"]), by="deltalake")
    require_module("deltalake").DeltaTable(str(path)).create_checkpoint()
    (data,), (checkpoint,) = path.glob("*.parquet"), (path / "_delta_log").glob("*.parquet")
    damage_is_named(with_checksums(data), "id", lambda: delta.scan(path).to_arrow())
    damage_is_named(with_checksums(checkpoint), "add.path", lambda: delta.scan(path))
    assert delta.snapshot(path).version == 0


def test_equality_deletes_are_compared(shared_catalog: SqlCatalog, namespace: str) -> None:
    rows = pa.table({"id": pa.array(range(30), pa.int64())})
    table = iceberg_table(shared_catalog, rows, name=f"{namespace}.t", version=2, by="pyiceberg")
    delete_equal(table, [1], [(3,), (4,)])
    iceberg.upgrade(table)
    (path,) = table.inspect.delete_files()["file_path"].to_pylist()
    file = with_checksums(path_of(path))
    assert iceberg.scan(table).count() == 28
    verbs: list[Callable[[], object]] = [
        lambda: iceberg.scan(table).to_arrow(),
        lambda: iceberg.scan(table).count(),
        lambda: iceberg.convert_equality_deletes(table),
        lambda: iceberg.rewrite_data_files(table, sort_by=["id"]),
        lambda: iceberg.update(table, "id > 7", {"id": 7}),
    ]
    with unchanged(table):
        damage_is_named(file, "id", *verbs, path=path)


def test_change_data_files_are_compared(tmp_path: Path) -> None:
    properties = {"delta.enableChangeDataFeed": "true"}
    path = delta_table(tmp_path / "t", ROWS.drop_columns(["items"]), properties=properties)
    delta.update(path, "id < 20", {"part": 7})
    file, *others = path.glob("_change_data/*.parquet")
    assert check_parquet([file, *others]) == 1 + len(others)
    assert delta.changes(path, 1).count() == 40
    for column in ("id", "_change_type"):
        damage_is_named(file, column, lambda: delta.changes(path, 1).to_arrow())


def test_sidecars_are_compared(tmp_path: Path) -> None:
    table = golden_table("delta/spark_v2_checkpoint", tmp_path)
    file = with_checksums(min((table / "_delta_log" / "_sidecars").glob("*.parquet")))
    assert delta.scan(table).count() > 0
    damage_is_named(file, "add.path", lambda: delta.scan(table))


def is_given(call: ast.Call, argument: str) -> bool:
    return any(one.arg == argument and ast.unparse(one.value) == "True" for one in call.keywords)


def test_no_module_reads_or_writes_parquet_without_checksums() -> None:
    writers = 0
    for path in Path(puffin_fast.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            names = [ast.unparse(one) for one in (node.func, *node.args[:1])]
            if {"pq.ParquetWriter", "pq.write_table"}.intersection(names):
                writers += 1
                assert is_given(node, "write_page_checksum"), f"{path}:{node.lineno}"
            if names[0] == "ParquetFormatWriter":
                assert path.name == "parquet_writer.py"
            assert not {"pq.ParquetFile", "pq.read_table"}.intersection(names), f"{path}:{node.lineno}"
    assert writers >= 4


def test_a_changed_bit_in_any_page_of_sparks_files_is_named_or_not_read(tmp_path: Path) -> None:
    table = golden_table("delta/spark_v1_checkpoint", tmp_path)
    rows = delta.scan(table).to_arrow().sort_by("id")
    n_named = 0
    for path in (next(table.glob("part=*/*.parquet")), next(table.glob("_delta_log/*.parquet"))):
        data = path.read_bytes()
        for page in list(thrift.pages_of(data)):
            path.write_bytes(data[: page.stop - 1] + bytes([data[page.stop - 1] ^ 1]) + data[page.stop :])
            try:
                found = delta.scan(table).to_arrow().sort_by("id")
            except CorruptDataError as error:
                assert f"offset {page.at}: CRC-32 of a page of column {page.column}: " in str(error)  # noqa: PT017
                n_named += 1
            else:
                assert found.equals(rows)
        path.write_bytes(data)
    assert n_named >= 20


def of_ids(rows: pa.Table) -> pa.Table:
    """The same rows with Iceberg's field ids."""
    fields = [field.with_metadata({"PARQUET:field_id": str(n + 1)}) for n, field in enumerate(rows.schema)]
    return rows.cast(pa.schema(fields))


@pytest.fixture
def encrypted(tmp_path: Path) -> Callable[[bool], Path]:
    """Writes a file with the encrypted column ``a`` and ``b``, with or without a plaintext footer."""
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):  # type: ignore[misc]
        def __init__(self, _: object) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _: str) -> str:
            return key.hex()

        def unwrap_key(self, key: str, _: str) -> bytes:
            return bytes.fromhex(key)

    def write(plaintext: bool) -> Path:
        path = tmp_path / f"{plaintext}.parquet"
        configuration = encryption.EncryptionConfiguration(
            footer_key="f", column_keys={"c": ["a"]}, plaintext_footer=plaintext
        )
        properties = encryption.CryptoFactory(Keys).file_encryption_properties(
            encryption.KmsConnectionConfig(), configuration
        )
        rows = of_ids(pa.table({"a": np.arange(100), "b": np.arange(100)}))
        with pq.ParquetWriter(path, rows.schema, encryption_properties=properties) as writer:
            writer.write_table(rows)
        return path

    return write


@pytest.mark.parametrize("plaintext", [False, True])
def test_encrypted_files_are_unsupported(
    shared_catalog: SqlCatalog,
    namespace: str,
    tmp_path: Path,
    encrypted: Callable[[bool], Path],
    plaintext: bool,
) -> None:
    file = encrypted(plaintext)
    rows = pa.table({"a": np.arange(100), "b": np.arange(100)})
    table = iceberg_table(shared_catalog, rows, name=f"{namespace}.t")
    data_file(table).write_bytes(file.read_bytes())
    folder = delta_table(tmp_path / "t", rows, by="deltalake")
    (data,) = folder.glob("*.parquet")
    data.write_bytes(file.read_bytes())
    delta.enable(folder)
    with pytest.raises(UnsupportedError, match="encrypted"), rows_of_file(file, table.schema()) as reader:
        reader.read_all()
    verbs: list[Callable[[], object]] = [
        lambda: iceberg.scan(table).to_arrow(),
        lambda: iceberg.delete(table, "a > 3 and a < 80"),
        lambda: iceberg.upsert(table, rows.slice(3), join_cols=["a"]),
        lambda: iceberg.rewrite_data_files(table, sort_by=["a"]),
        lambda: iceberg.collect_ndv(table),
        lambda: delta.scan(folder).to_arrow(),
        lambda: delta.delete(folder, "a > 3 and a < 80"),
    ]
    for run in verbs:
        with pytest.raises(UnsupportedError, match="encrypted"):
            run()
    for level in ("files", "rows"):
        found = iceberg.verify(table, level=level)
        assert {one.kind for one in found} <= {"unsupported", "mismatch"}, found
        assert any("encrypted" in one.message for one in found)
    if not plaintext:
        assert "encrypted" in "".join(str(found) for found in delta.verify(folder))
