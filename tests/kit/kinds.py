"""The kinds of tables for which a law holds, with one interface.

A law is parametrized by `KINDS`, creates a table of the kind, and calls the verbs of its format: ``made.verbs.delete(
made.table, "id = 1")``. What a kind cannot do is an attribute here, so that the law asserts the refusal. A new format
is a class here, and its kinds are rows of `KINDS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from puffin_fast import delta, iceberg
from tests.kit.rows import Rows, by_deltalake, by_pyiceberg, by_us, row_ids
from tests.kit.tables import delta_table, files_of, iceberg_table
from tests.kit.vectors import by_vectors

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

__all__ = ["KINDS", "AnyTable", "DeltaTable", "IcebergTable", "create"]


class AnyTable(ABC):
    """A table, the verbs of its format, and what its kind has.

    Attributes:
        kind: a key of `KINDS`.
        table: the first argument of the verbs.
        verbs: the module `puffin_fast.iceberg` or `puffin_fast.delta`.
        before_commit: places of the code that a verb passes after it has written files and before it commits.
        send: the place of the code that makes the commit happen.
        has_row_ids: whether rows keep ids through updates.
        has_branches: whether the verbs accept a branch.
        is_partitioned: whether it has partition columns.
    """

    verbs: ClassVar[Any]
    before_commit: ClassVar[tuple[str, ...]]
    send: ClassVar[str]
    has_branches: ClassVar[bool]

    def __init__(self, kind: str, table: Any, *, has_row_ids: bool, is_partitioned: bool) -> None:
        self.kind, self.table = kind, table
        self.has_row_ids, self.is_partitioned = has_row_ids, is_partitioned

    def read(self, *columns: str, **options: Any) -> Rows:
        """Returns the rows as this package reads them now, by their ``id``."""
        return by_us(self.table, *columns, **options)

    def files(self) -> set[Path]:
        """Returns all files in the folder of the table."""
        return files_of(self.table)

    @abstractmethod
    def state(self) -> int | None:
        """Returns the current snapshot or version."""

    def row_ids(self) -> dict[Any, int]:
        """Returns the row id of each ``id``."""
        return row_ids(self.table)

    @abstractmethod
    def others(self) -> Iterator[Rows]:
        """Yields the rows as each other reader reads them; fails if `verify` finds an error."""


class IcebergTable(AnyTable):
    """A table of PyIceberg."""

    verbs: ClassVar[Any] = iceberg
    before_commit = (
        "puffin_fast.iceberg.dml.attempt.IcebergWriter.stage",
        "puffin_fast.iceberg.commit.protocol.write_manifest_list",
    )
    send = "pyiceberg.catalog.sql.SqlCatalog.commit_table"
    has_branches = True

    def state(self) -> int | None:
        found = self.table.refresh().current_snapshot()
        return None if found is None else int(found.snapshot_id)

    def others(self) -> Iterator[Rows]:
        yield by_pyiceberg(self.table)
        if self.table.format_version == 3:
            yield by_vectors(self.table)
        assert iceberg.verify(self.table) == []


class DeltaTable(AnyTable):
    """A Delta table, by its folder."""

    verbs: ClassVar[Any] = delta
    before_commit = (
        "puffin_fast.delta.dml.attempt.DeltaWriter.stage",
        "puffin_fast.delta.log.commit._Commit._content",
    )
    send = "puffin_fast.delta.log.commit.put_version"
    has_branches = False

    def state(self) -> int | None:
        return delta.snapshot(self.table).version

    def others(self) -> Iterator[Rows]:
        yield by_deltalake(self.table)
        assert delta.verify(self.table) == []
        log = "".join(file.read_text() for file in (self.table / "_delta_log").glob("*.json"))
        for path in self.table.rglob("*.parquet"):
            if path.parent.name != "_delta_log" and not path.name.startswith("."):
                assert path.name in log, f"{path.name} is in no version"


TRACKED = {"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}

KINDS: dict[str, tuple[type[AnyTable], dict[str, Any], bool]] = {
    "iceberg 2": (IcebergTable, {"version": 2}, False),
    "iceberg 3": (IcebergTable, {"version": 3}, False),
    "iceberg partitioned": (IcebergTable, {"version": 3}, True),
    "delta plain": (DeltaTable, {}, False),
    "delta partitioned": (DeltaTable, {}, True),
    "delta mapped": (DeltaTable, {"properties": MAPPED}, False),
    "delta tracked": (DeltaTable, {"properties": TRACKED}, True),
}
"""Each kind: its class, the arguments of the builder, and whether it is partitioned."""


def create(
    kind: str,
    rows: Any,
    folder: Path,
    catalog: Catalog,
    *,
    name: str = "n.t",
    partition: Sequence[str] = ("g",),
) -> AnyTable:
    """Creates a table of a kind.

    Args:
        kind: a key of `KINDS`.
        rows: a schema, or rows as `tests.kit.tables` takes them.
        folder: of Delta tables.
        catalog: of Iceberg tables, with the namespace.
        name: with the namespace; the last part names the folder of a Delta table.
        partition: columns of the kinds that are partitioned.
    """
    kept, options, is_partitioned = KINDS[kind]
    options = options | {"partition": partition if is_partitioned else ()}
    table: Any
    if kept is IcebergTable:
        table = iceberg_table(catalog, rows, name=name, **options)
        has_row_ids = options["version"] > 2
    else:
        table = delta_table(folder / name.rpartition(".")[2], rows, **options)
        has_row_ids = "delta.enableRowTracking" in options.get("properties", {})
    return kept(kind, table, has_row_ids=has_row_ids, is_partitioned=is_partitioned)
