"""What each engine does with tables of each format (docs/compatibility.md), and the test that shows each cell."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

from tests import jars

ROOT = Path(__file__).parents[2]
BOTH = "tests/interop/test_both_directions.py"
JAVA_PUFFIN = "tests/puffin/test_java.py"
STATISTICS = "tests/interop/test_statistics.py"
DELTA_SPARK = "tests/delta/spark/test_spark.py::test_delta_spark_and_we_agree"
DELTA_READERS = (
    "tests/delta/dml/test_interop.py::test_every_reader_reads_the_same_rows_after_every_kind_of_delete"
)
DELTALAKE = "tests/delta/dml/test_interop.py::test_a_table_of_deltalake_takes_vectors"
IN_TURN = (
    "tests/iceberg/delete_files/test_position_files.py"
    "::test_spark_and_we_delete_in_turn_then_the_table_is_upgraded"
)
REST = "tests/iceberg/dml/test_delete.py::test_duckdb_and_we_delete_in_turn_through_a_rest_catalog"


class Row(NamedTuple):
    """What one engine does with one format; a cell is ``-``, or its text and the test that shows it."""

    format: str
    engine: str
    reads_ours: str
    we_read_its: str
    changes_ours: str


def pinned(extra: str, package: str) -> str:
    """The version of a package that pyproject.toml asks for, as people say it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (wanted,) = (text for text in extras[extra] if re.match(rf"{package}\b(?!-)", text))
    match = re.search(r"(==|>=)([\d.]+)", wanted)
    assert match, wanted
    return match[2].rstrip(".") + ("" if match[1] == "==" or "<" in wanted else " and later")


def version_of(coordinates: tuple[str, ...]) -> str:
    return coordinates[0].rpartition(":")[2]


SPARK = f"Spark {jars.SPARK_SERIES} with Iceberg {version_of(jars.SPARK)}"
DUCKDB = f"DuckDB {pinned('test', 'duckdb')}"
PYICEBERG = f"PyIceberg {pinned('iceberg', 'pyiceberg')}"
POLARS = f"Polars {pinned('fast', 'polars')}"
PYPAIMON = f"pypaimon {pinned('pypaimon', 'pypaimon')}"
JAVA = f"Iceberg's Java library {version_of(jars.REST)}"

MATRIX = [
    Row("Iceberg v3 tables", SPARK, f"yes {BOTH}::test_every_engine_reads_what_we_delete",
        f"yes {BOTH}::test_spark_deletes_on_top_of_our_vectors_and_we_on_top_of_its",
        f"DELETE, UPDATE, MERGE {BOTH}::test_spark_merges_into_a_table_with_our_vectors"),
    Row("", DUCKDB, f"yes {BOTH}::test_every_engine_reads_what_we_delete",
        f"yes {BOTH}::test_duckdb_deletes_on_top_through_the_rest_catalog_and_we_on_top_of_it",
        f"DELETE, if each vector has its own file {BOTH}::test_duckdb_still_loses_the_other_vectors_of_a_puffin_file"),
    Row("", PYICEBERG, "yes tests/puffin/test_vectors.py::test_pyiceberg_reads_our_vectors", "-", "-"),
    Row("", POLARS, "yes tests/iceberg/scans/test_accelerate.py::test_polars_reads_the_right_rows", "-", "-"),
    Row("Iceberg v2 tables", SPARK, f"yes {IN_TURN}", f"yes {IN_TURN}", f"DELETE {IN_TURN}"),
    Row("Puffin files", JAVA, f"yes {JAVA_PUFFIN}::test_java_and_pyiceberg_read_what_we_write",
        f"yes {JAVA_PUFFIN}::test_we_read_what_java_writes", "-"),
    Row("NDV statistics", SPARK, f"yes {STATISTICS}::test_spark_plans_with_our_counts",
        f"yes {STATISTICS}::test_spark_functions_read_our_blobs_and_we_theirs",
        f"yes {STATISTICS}::test_java_unites_nothing_of_ours_wrongly_when_it_runs_after_us"),
    Row("", f"{DUCKDB}, {PYICEBERG}",
        f"the file {STATISTICS}::test_our_files_are_read_by_spark_java_duckdb_and_pyiceberg", "-", "-"),
    Row("Delta tables", f"Spark {jars.SPARK_SERIES} with Delta {version_of(jars.DELTA)}", f"yes {DELTA_SPARK}",
        f"yes {DELTA_SPARK}", f"DELETE, UPDATE, MERGE, OPTIMIZE, REORG, RESTORE, VACUUM {DELTA_SPARK}"),
    Row("", DUCKDB, f"yes {DELTA_READERS}", "-", "-"),
    Row("", f"deltalake {pinned('test', 'deltalake')}", f"yes {DELTA_READERS}", f"without vectors {DELTALAKE}", "-"),
    Row("", POLARS, f"if paths need no escapes {DELTA_READERS}", "-", "-"),
    Row("Paimon tables", f"Paimon's Java library {version_of(jars.PAIMON)}",
        "yes tests/paimon/test_java.py::test_java_reads_and_deletes_on_top",
        "yes tests/paimon/test_java.py::test_java_reads_and_deletes_on_top",
        "deletes tests/paimon/test_java.py::test_java_reads_and_deletes_on_top"),
    Row("", PYPAIMON, "version 1; 2 with `accelerate` "
        "tests/paimon/test_pypaimon.py::test_pypaimon_reads_what_was_deleted_through_version_1",
        "yes tests/paimon/test_vectors.py::test_ranges_are_read_as_java_and_as_pypaimon_write_them", "-"),
    Row("Lance datasets", f"pylance {pinned('lance', 'pylance')}",
        "yes tests/lance/test_deletions.py::test_rows_go_by_fragment_and_offset",
        "yes tests/lance/test_deletions.py::test_deletion_files_of_both_forms_are_read",
        "deletes tests/lance/test_deletions.py::test_rows_go_by_fragment_and_offset"),
]  # fmt: skip


def table() -> str:
    """The table as Markdown: each cell without its test."""
    lines = [
        "| format | engine | reads what we write | we read what it writes | changes our tables |",
        "|---" * 5 + "|",
    ]
    lines += [f"| {' | '.join(re.sub(r' tests/[^ ]+$', '', cell) for cell in row)} |" for row in MATRIX]
    return "\n".join(lines) + "\n"
