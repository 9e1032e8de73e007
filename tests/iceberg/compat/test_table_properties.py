"""Values of table properties that no engine can mean are refused by name, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, MissingExtraError, UnsupportedError
from puffin_fast.iceberg.commit.protocol import attempts
from puffin_fast.iceberg.compat.table_properties import choice_property, integer_property
from tests.iceberg.conftest import RacingCatalog, files_of, set_properties

ROWS = pa.table({"id": pa.array(range(100), pa.int64())})


def append(table: Table) -> object:
    return iceberg.append(table, ROWS)


def delete(table: Table) -> object:
    return iceberg.delete(table, "id < 50")


def update(table: Table) -> object:
    return iceberg.update(table, "id < 50", {"id": 7})


def rewrite(table: Table) -> object:
    return iceberg.rewrite_data_files(table)


REFUSED: list[tuple[str, str, Callable[[Table], object]]] = [
    ("commit.retry.num-retries", "x", delete),
    ("commit.retry.min-wait-ms", "1.5", append),
    ("commit.retry.total-timeout-ms", "9" * 400, append),
    ("write.delete.target-file-size-bytes", "abc", delete),
    ("write.delete.target-file-size-bytes", "0", delete),
    ("write.delete.isolation-level", "foo", delete),
    ("write.update.isolation-level", "foo", update),
    ("write.target-file-size-bytes", "abc", append),
    ("write.target-file-size-bytes", "-1", rewrite),
    ("write.parquet.row-group-limit", "0", append),
    ("write.parquet.page-size-bytes", "", append),
    ("write.parquet.compression-level", "abc", append),
    ("write.parquet.compression-codec", "nope", append),
]


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    made = iceberg.create_table(racing, "n.t", ROWS.schema)
    iceberg.append(made, ROWS)
    return made


@pytest.mark.parametrize(("name", "value", "verb"), REFUSED)
def test_a_value_that_no_engine_can_mean_is_refused(
    table: Table, tmp_path: Path, name: str, value: str, verb: Callable[[Table], object]
) -> None:
    set_properties(table, {name: value})
    before = files_of(table)
    if verb is append:
        with pytest.raises(InvalidInputError, match=f"property {name}: "):
            iceberg.append(table, ROWS, dry_run=True)
    with pytest.raises(InvalidInputError) as caught:
        verb(table)
    assert f"property {name}: expected " in str(caught.value)
    assert f"found {value!r}" in str(caught.value)
    assert files_of(table) == before


def test_a_level_that_the_codec_does_not_have_is_refused(table: Table) -> None:
    level, codec = "write.parquet.compression-level", "write.parquet.compression-codec"
    set_properties(table, {codec: "GZIP", level: "99"})
    with pytest.raises(InvalidInputError, match=f"{level}: expected a level of gzip, found 99"):
        append(table)
    set_properties(table, {level: "9"})
    append(table)
    codecs = {
        pq.read_metadata(task.file.file_path.removeprefix("file://")).row_group(0).column(0).compression
        for task in table.scan().plan_files()
    }
    assert codecs == {"ZSTD", "GZIP"}


@pytest.mark.parametrize("value", ["no", "0", "FALSE", ""])
def test_only_true_allows_to_remove_files_as_in_java(table: Table, value: str) -> None:
    set_properties(table, {"gc.enabled": value})
    for verb in (iceberg.expire_snapshots, iceberg.remove_orphan_files):
        with pytest.raises(UnsupportedError, match=r"gc\.enabled"):
            verb(table)
    set_properties(table, {"gc.enabled": "True"})
    iceberg.remove_orphan_files(table)


def test_words_are_read_in_any_case_and_numbers_with_a_sign() -> None:
    assert choice_property({"a": "SnapShot"}, "a", ("serializable", "snapshot")) == "snapshot"
    assert choice_property({}, "a", ("serializable", "snapshot")) == "serializable"
    assert integer_property({"a": "+12"}, "a", 1) == 12
    assert integer_property({}, "a", None) is None
    assert list(attempts({"commit.retry.num-retries": "-1"})) == [1]
    for text in ("1_000", " 1", "1.0", "٣", "0x1", str(1 << 63)):
        with pytest.raises(InvalidInputError, match="property a: expected a positive integer"):
            integer_property({"a": text}, "a", 1)


@pytest.mark.skipif(find_spec("cramjam") is not None, reason="cramjam is installed")
def test_the_codec_snappy_of_manifests_names_its_package(table: Table) -> None:
    set_properties(table, {"write.avro.compression-codec": "snappy"})
    with pytest.raises(MissingExtraError, match="pip install cramjam"):
        delete(table)
