"""Hadoop catalogs without Spark: which version a reader sees, and what a commit does that fails at one of its steps."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.types import StringType

from puffin_fast import iceberg
from puffin_fast.cli import main
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, PuffinFastError
from puffin_fast.iceberg.catalogs import hadoop
from puffin_fast.iceberg.catalogs.configured_catalog import configured_catalog
from tests.iceberg.conftest import set_properties
from tests.kit.tables import iceberg_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
GZIP = {"write.metadata.compression-codec": "gzip"}


@pytest.fixture
def catalog(tmp_path: Path) -> iceberg.HadoopCatalog:
    found = iceberg.HadoopCatalog("local", warehouse=str(tmp_path))
    found.create_namespace("db")
    return found


@pytest.fixture
def table(catalog: iceberg.HadoopCatalog) -> Table:
    return iceberg_table(catalog, ROWS, name="db.t")


def metadata(table: Table) -> Path:
    return Path(table.location()) / "metadata"


def version(catalog: iceberg.HadoopCatalog) -> str:
    return catalog.load_table("db.t").metadata_location.rpartition("/")[2]


def test_compressed_versions_have_javas_names(catalog: iceberg.HadoopCatalog) -> None:
    table = iceberg_table(catalog, ROWS, name="db.t", properties=GZIP)
    assert version(catalog) == "v2.gz.metadata.json"
    # Java renames to this name if there is none; a file v3.metadata.json beside it would hide its commit
    shutil.copy(metadata(table) / "v2.gz.metadata.json", metadata(table) / "v3.gz.metadata.json")
    assert version(catalog) == "v3.gz.metadata.json"
    assert iceberg.delete(table, "id < 3").rows_deleted == 3
    assert version(catalog) == "v4.gz.metadata.json"
    assert iceberg.scan(catalog.load_table("db.t")).count() == 7


def test_a_version_of_another_compression_is_not_hidden(
    catalog: iceberg.HadoopCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = metadata(table), "v3.gz.metadata.json"
    write = hadoop._content

    def appears(location: str, io: Any) -> bytes:
        data = write(location, io)
        if location.endswith(".tmp"):
            (folder / other).write_bytes(gzip.compress((folder / "v2.metadata.json").read_bytes()))
        return data

    monkeypatch.setattr(hadoop, "_content", appears)
    with (
        iceberg.v3_metadata(catalog),
        pytest.raises(CommitFailedException, match="another commit created version 3"),
    ):
        catalog._write_version(table.metadata, table.io, table.location(), 3)
    assert not (folder / "v3.metadata.json").exists()


def test_files_with_the_old_ending_are_read(catalog: iceberg.HadoopCatalog, table: Table) -> None:
    plain = metadata(table) / "v2.metadata.json"
    (metadata(table) / "v2.metadata.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert version(catalog) == "v2.metadata.json.gz"
    assert iceberg.delete(catalog.load_table("db.t"), "id < 3").rows_deleted == 3


@pytest.mark.parametrize(
    ("hint", "files", "expected"),
    [
        ("2", (1, 2), 2),
        ("1", (1, 2), 2),
        ("1", (1, 2, 4), 2),
        (None, (1, 2, 4), 4),
        ("", (1, 2), 2),
        ("1_0", (1, 10), 10),
        ("0x", (1, 2, 4), 4),
        ("2\n", (1, 2), 2),
        (" 1", (1, 2, 4), 4),
        ("1", (2, 3), 3),
        ("9", (1, 2), None),
    ],
)
def test_hints_are_read_as_java_reads_them(
    catalog: iceberg.HadoopCatalog,
    table: Table,
    hint: str | None,
    files: tuple[int, ...],
    expected: int | None,
) -> None:
    folder = metadata(table)
    text = (folder / "v2.metadata.json").read_bytes()
    for known in folder.glob("v*"):
        known.unlink()
    for number in files:
        (folder / f"v{number}.metadata.json").write_bytes(text)
    (folder / "v077.metadata.json").write_bytes(text)
    if hint is not None:
        (folder / "version-hint.text").write_text(hint)
    if expected is None:
        with pytest.raises(CorruptDataError, match=r"v9\.metadata\.json"):
            catalog.load_table("db.t")
    else:
        assert version(catalog) == f"v{expected}.metadata.json"


def fails(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("step", ["wait", "remove", "put"])
def test_a_failure_after_the_commit_removes_no_file(
    catalog: iceberg.HadoopCatalog, table: Table, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with monkeypatch.context() as patch:
        if step == "wait":
            patch.setattr(
                hadoop,
                "wait_for_renames",
                lambda path, **_: None if path.endswith("text") else fails(NotFoundError("gone"))(),
            )
        elif step == "remove":
            patch.setattr(hadoop, "remove", fails(InvalidInputError("read-only")))
        else:
            put = hadoop.put_if_absent

            def put_and_fail(path: str, data: bytes) -> bool:
                put(path, data)
                raise OSError(5, "input/output error")

            patch.setattr(hadoop, "put_if_absent", put_and_fail)
        assert iceberg.delete(table, "id < 3").rows_deleted == 3
    assert iceberg.scan(catalog.load_table("db.t")).count() == 7
    assert iceberg.verify(catalog.load_table("db.t")) == []


def test_a_full_disk_commits_nothing(
    catalog: iceberg.HadoopCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(os.listdir(metadata(table)))
    with monkeypatch.context() as patch:
        patch.setattr(hadoop, "put_if_absent", fails(OSError(28, "no space left on device")))
        with pytest.raises(PuffinFastError, match=r"v3\.metadata\.json: it could not be written") as caught:
            iceberg.delete(table, "id < 3")
    assert type(caught.value) is PuffinFastError
    assert sorted(os.listdir(metadata(table))) == before
    assert iceberg.scan(catalog.load_table("db.t")).count() == 10


def test_a_slow_commit_does_not_lower_the_hint(
    catalog: iceberg.HadoopCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = metadata(table)

    def others_commit(path: str, **_: object) -> None:
        if path.endswith("v3.metadata.json"):
            (folder / "version-hint.text").write_text("9")

    monkeypatch.setattr(hadoop, "wait_for_renames", others_commit)
    iceberg.append(table, ROWS)
    assert (folder / "version-hint.text").read_text() == "9"


def test_checksums_of_earlier_files_are_removed(table: Table) -> None:
    for name in ("version-hint.text", "v3.metadata.json"):
        (metadata(table) / f".{name}.crc").write_bytes(b"crc\0of another file")
    iceberg.append(table, ROWS)
    assert not list(metadata(table).glob(".*.crc"))


def test_transactions_create_tables_in_their_folder(catalog: iceberg.HadoopCatalog) -> None:
    catalog.create_namespace("a.b")
    new = catalog.create_table_transaction("a.b.t", ROWS.schema).commit_transaction()
    assert new.metadata_location == f"{catalog.warehouse}/a/b/t/metadata/v1.metadata.json"
    assert new.location() == f"{catalog.warehouse}/a/b/t"
    with pytest.raises(InvalidInputError, match="its location is"):
        catalog.create_table_transaction("a.b.u", ROWS.schema, location="/elsewhere")
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table_transaction("nope.u", ROWS.schema)
    late = catalog.create_table_transaction("a.b.t", ROWS.schema)
    with pytest.raises(CommitFailedException, match="already exists"):
        late.commit_transaction()


def test_pyicebergs_own_changes(catalog: iceberg.HadoopCatalog, table: Table) -> None:
    set_properties(table, {"owner": "me"})
    assert version(catalog) == "v3.metadata.json"
    with iceberg.v3_metadata(catalog), table.update_schema() as update:
        update.add_column("note", StringType())
    assert catalog.load_table("db.t").schema().column_names == ["id", "note"]
    log = json.loads((metadata(table) / "v4.metadata.json").read_text())["metadata-log"]
    assert [entry["metadata-file"].rpartition("/")[2] for entry in log] == [
        f"v{n}.metadata.json" for n in (1, 2, 3)
    ]


def test_the_configuration_names_the_class(
    catalog: iceberg.HadoopCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__FOLDER__PY_CATALOG_IMPL", "puffin_fast.iceberg.HadoopCatalog")
    monkeypatch.setenv("PYICEBERG_CATALOG__FOLDER__WAREHOUSE", catalog.warehouse)
    found = CliRunner().invoke(main, ["--catalog", "folder", "delete", "db.t", "--row-filter", "id < 3"])
    assert found.exit_code == 0, found.output
    assert iceberg.scan(configured_catalog("folder", {}).load_table("db.t")).count() == 7


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0b", ()])
def test_names_that_are_no_folders(catalog: iceberg.HadoopCatalog, name: Any) -> None:
    assert not catalog.namespace_exists(name)
    with pytest.raises(InvalidInputError, match="names of folders"):
        catalog.create_namespace(name)
    with pytest.raises((NoSuchTableError, NotFoundError, InvalidInputError)):
        iceberg.load_table(catalog, ("db", "/".join(name) or ".."))


def test_namespaces_are_folders_also_behind_links(catalog: iceberg.HadoopCatalog, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("")
    assert catalog.list_namespaces() == [("db",), ("link",), ("real",)]
    iceberg.create_table(catalog, "link._t", ROWS.schema)
    assert catalog.list_tables("real") == [("real", "_t")]
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("file")


@pytest.mark.parametrize("warehouse", ["file:{}/a#b", "file://{}/a?b", "file://localhost{}/a"])
def test_uris_that_pyiceberg_opens_elsewhere_are_refused(tmp_path: Path, warehouse: str) -> None:
    catalog = iceberg.HadoopCatalog("local", warehouse=warehouse.format(tmp_path))
    with pytest.raises(InvalidInputError, match="use a local path"):
        catalog.create_namespace("db")
    with pytest.raises(InvalidInputError, match="use a local path"):
        iceberg.load_table(catalog, "db.t")
