"""Fixtures: the engines, with one interface to read the rows of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars
import pyarrow as pa
import pytest

from puffin_fast import iceberg
from tests.kit.tables import iceberg_table, parts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from puffin_fast.puffin.finding import Finding

N = 3000

ROWS = pa.table(
    {
        "id": pa.array(range(N), pa.int64()),
        "word": [None if i % 11 == 0 else f"w{i % 7}" for i in range(N)],
        "k": pa.array([i * 37 % 101 for i in range(N)], pa.int32()),
    }
)
"""Ids that name rows, text with nulls, and a number that is in no order."""

MERGE_ON_READ = {f"write.{job}.mode": "merge-on-read" for job in ("delete", "update", "merge")}
"""Of Java; this package does so anyhow."""

SPECS = {
    "unpartitioned": (),
    "identity": ("word",),
    "bucket": ("bucket[4](id)",),
    "two fields": ("word", "truncate[1000](id)"),
}

Ids = set[int]


def where(predicate: Callable[[dict[str, object]], bool]) -> Ids:
    """Ids of the rows for which a plain Python predicate holds."""
    return {row["id"] for row in ROWS.to_pylist() if predicate(row)}


class Panel:
    """All engines that can read a table."""

    def __init__(self, spark: SparkSession, duckdb: DuckDBPyConnection, table: Table) -> None:
        self.spark, self.duckdb, self.table = spark, duckdb, table
        self.name = ".".join((table.catalog.name, *table.name()))

    def answers(self, schema: pa.Schema = ROWS.schema, branch: str = "main") -> dict[str, pa.Table]:
        """The rows of a branch from each engine, by id; Polars reads no branches."""
        table, names = self.table, ", ".join(schema.names)
        table.refresh()
        snapshot = table.metadata.refs[branch].snapshot_id
        place = f"iceberg_scan('{table.metadata_location}', snapshot_from_id => {snapshot}::UBIGINT)"
        spark = self.name if branch == "main" else f"{self.name}.branch_{branch}"
        found = {
            "ours": iceberg.scan(table, branch=branch).to_arrow(),
            "PyIceberg": table.scan().use_ref(branch).to_arrow(),
            "Spark": self.spark.sql(f"SELECT {names} FROM {spark}").toArrow(),
            "DuckDB": self.duckdb.execute(f"SELECT {names} FROM {place}").to_arrow_table(),
        }
        if branch == "main":
            found["Polars"] = polars.scan_iceberg(table).collect().to_arrow()
        return {
            engine: rows.select(schema.names).cast(schema).sort_by("id") for engine, rows in found.items()
        }

    def agree(self, expected: pa.Table | Ids, branch: str = "main") -> None:
        """Fails unless every engine reads exactly these rows, or the source's rows with these ids."""
        if isinstance(expected, set):
            expected = ROWS.filter(pa.array([i in expected for i in range(N)]))
        for engine, rows in self.answers(expected.schema, branch).items():
            assert rows.equals(expected.sort_by("id")), f"{engine} reads {rows.num_rows} rows"

    def vectors(self) -> list[tuple[str, str, int]]:
        """The delete manifests as Java reads them: format, referenced data file, cardinality."""
        query = f"SELECT file_format, referenced_data_file, record_count FROM {self.name}.delete_files"
        return [tuple(row) for row in self.spark.sql(query).collect()]

    def one_vector_per_file(self) -> None:
        """The rule of version 3: only vectors, and at most one for a data file."""
        vectors = self.vectors()
        assert {kind for kind, _, _ in vectors} <= {"PUFFIN"}
        assert len({data_file for _, data_file, _ in vectors}) == len(vectors)

    def sql(self, statement: str) -> None:
        """Runs Spark SQL on the table, which it calls ``{t}``."""
        self.spark.sql(statement.format(t=self.name))
        self.table.refresh()


@pytest.fixture
def panel(iceberg_spark: SparkSession, duckdb_iceberg: DuckDBPyConnection) -> Callable[[Table], Panel]:
    """Makes the panel for a table of `shared_catalog`."""
    return lambda table: Panel(iceberg_spark, duckdb_iceberg, table)


@pytest.fixture(params=list(SPECS.values()), ids=list(SPECS))
def table(request: pytest.FixtureRequest, shared_catalog: SqlCatalog, namespace: str) -> Table:
    """`ROWS` in a version 3 table of several data files, once for each way to partition it."""
    return iceberg_table(
        shared_catalog,
        parts(ROWS, 3),
        name=f"{namespace}.t",
        partition=request.param,
        properties=MERGE_ON_READ,
    )


WRONG_TOTAL = re.compile(
    r".+: total-(delete-files|position-deletes): expected \d+ \(snapshot summary\), found \d+"
)


def errors_of(table: Table, **state: Any) -> list[Finding]:
    """The findings of `verify`, but for Puffin files of which another engine has superseded some vectors."""
    return [one for one in iceberg.verify(table, **state) if "vectors were superseded" not in one.message]


def only_totals_are_wrong(table: Table, theirs: Collection[int], *, has_two_specs: bool = False) -> None:
    """Fails unless each finding of `verify` is a total of deletes, and DuckDB's snapshot is the first that has one.

    DuckDB 1.5.5 does not count the delete files that it removes. Later writers, also this package, add to its total.

    Args:
        table: to verify, snapshot by snapshot.
        theirs: ids of DuckDB's snapshots.
        has_two_specs: whether the table has data files of an older partition spec: DuckDB 1.5.5 gives their vectors the
            newest spec, which `verify` reports.
    """
    was_wrong = False
    for snapshot in table.metadata.snapshots:
        found = errors_of(table, snapshot_id=snapshot.snapshot_id)
        if has_two_specs:
            found = [one for one in found if "expected partition spec" not in one.message]
        assert not found or was_wrong or snapshot.snapshot_id in theirs, found
        assert {finding.kind for finding in found} <= {"stale"}
        assert all(WRONG_TOTAL.fullmatch(finding.message) for finding in found), found
        was_wrong |= bool(found)


@contextmanager
def attached(duckdb: DuckDBPyConnection, uri: str) -> Iterator[str]:
    """The REST catalog at an address as a database of DuckDB."""
    duckdb.execute(f"ATTACH 'wh' AS rest (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
    try:
        yield "rest"
    finally:
        duckdb.execute("DETACH rest")
