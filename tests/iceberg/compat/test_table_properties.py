"""Values of table properties that no engine can mean are refused by name, and nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, MissingExtraError, UnsupportedError
from puffin_fast.iceberg.commit.protocol import attempts
from puffin_fast.iceberg.compat.table_properties import choice_property, integer_property
from tests.iceberg.conftest import refused, set_properties
from tests.iceberg.verbs import REWRITES, ROWS, WRITES
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table, path_of

REFUSED: list[tuple[str, str, Callable[..., object]]] = [
    ("commit.retry.num-retries", "x", WRITES["delete"]),
    ("commit.retry.min-wait-ms", "1.5", WRITES["append"]),
    ("commit.retry.total-timeout-ms", "9" * 400, WRITES["append"]),
    ("write.delete.target-file-size-bytes", "abc", WRITES["delete"]),
    ("write.delete.target-file-size-bytes", "0", WRITES["delete"]),
    ("write.delete.isolation-level", "foo", WRITES["delete"]),
    ("write.update.isolation-level", "foo", WRITES["update"]),
    ("write.target-file-size-bytes", "abc", WRITES["append"]),
    ("write.target-file-size-bytes", "-1", REWRITES["rewrite_data_files"]),
    ("write.parquet.row-group-limit", "0", WRITES["append"]),
    ("write.parquet.page-size-bytes", "", WRITES["append"]),
    ("write.parquet.compression-level", "abc", WRITES["append"]),
    ("write.parquet.compression-codec", "nope", WRITES["append"]),
]


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    return iceberg_table(racing, ROWS)


@pytest.mark.parametrize(("name", "value", "verb"), REFUSED)
def test_a_value_that_no_engine_can_mean_is_refused(
    table: Table, name: str, value: str, verb: Callable[..., object]
) -> None:
    set_properties(table, {name: value})
    said = rf"property {re.escape(name)}: expected .*found {value!r}"
    if verb is WRITES["append"]:
        with refused(table, InvalidInputError, said):
            verb(table, dry_run=True)
    with refused(table, InvalidInputError, said):
        verb(table)


def test_a_level_that_the_codec_does_not_have_is_refused(table: Table) -> None:
    level, codec = "write.parquet.compression-level", "write.parquet.compression-codec"
    set_properties(table, {codec: "GZIP", level: "99"})
    with pytest.raises(InvalidInputError, match=f"{level}: expected a level of gzip, found 99"):
        iceberg.append(table, ROWS)
    set_properties(table, {level: "9"})
    iceberg.append(table, ROWS)
    codecs = {
        pq.read_metadata(path_of(task.file.file_path)).row_group(0).column(0).compression
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
        WRITES["delete"](table)
