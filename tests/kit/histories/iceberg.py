"""Histories of Iceberg tables: versions 1 to 3, branches, schema and partition changes, key indexes, PyIceberg."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from puffin_fast import iceberg
from puffin_fast.errors import NotFoundError
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.index import stored
from puffin_fast.iceberg.index.properties import KEY_INDEXES
from puffin_fast.iceberg.plan.files import resolve
from tests.iceberg.maintenance.delete_files import delete_by_file
from tests.kit.changes import State, frozen
from tests.kit.histories.machine import IDS, LINEAGE, History, Nothing, Operation, Row, Rows, operation
from tests.kit.rows import by_duckdb, by_pyiceberg
from tests.kit.tables import path_of, sqlite_catalog
from tests.rows.deletes.equality_deletes import delete_equal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from puffin_fast.puffin.finding import Finding

STRUCT = StructType(NestedField(7, "a", IntegerType()), NestedField(8, "b", StringType()))
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "k", IntegerType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "m", STRUCT),
    NestedField(6, "row", LongType()),
)

PARTITIONS: dict[int, Any] = {1: BucketTransform(3), 2: IdentityTransform(), 3: TruncateTransform(1)}
"""The partition transforms that are tried, by source column."""

VALUES: dict[str, tuple[IcebergType, list[Any]]] = {
    "long": (LongType(), [0, 7]),
    "int": (IntegerType(), [0, 7]),
    "float": (FloatType(), [0.0, -0.0, float("nan"), 0.5]),
    "double": (DoubleType(), [0.0, -0.0, float("nan"), 0.5]),
    "string": (StringType(), ["", "ä"]),
    "binary": (BinaryType(), [b"", b"\xff"]),
    "decimal(5, 2)": (DecimalType(5, 2), [Decimal("1.50"), Decimal("-0.01")]),
    "timestamptz": (TimestamptzType(), [datetime(2020, 1, 1, tzinfo=UTC)]),
    "list": (ListType(102, IntegerType(), element_required=False), [[], [1, None], [2]]),
}
"""Types of columns that are added, with values besides null."""

WIDER: dict[str, IcebergType] = {
    "int": LongType(),
    "float": DoubleType(),
    "decimal(5, 2)": DecimalType(9, 2),
}


class IcebergHistory(History):
    """A table of a catalog.

    Args:
        catalog: without other writers.
        name: of the table.
        seed: of its properties and its partitions.
        version: of the format.
        by: whether it is partitioned; by chance by default.
        duckdb: reads it, too.
    """

    api: ClassVar[Any] = iceberg

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        seed: int,
        version: str,
        *,
        by: bool | None = None,
        duckdb: DuckDBPyConnection | None = None,
    ) -> None:
        super().__init__(seed)
        self.catalog, self.duckdb = catalog, duckdb
        self.defaults: Row = {}
        self.equality = False
        self._states: dict[tuple[int, int], State] = {}
        properties = {
            "format-version": version,
            "write.delete.granularity": self.chance.choice(["file", "partition"]),
            "write.delete.target-file-size-bytes": self.chance.choice(["1", "67108864"]),
        }
        choices: dict[bool | None, list[list[int]]] = {
            None: [[], [2], [1]],
            True: [[2], [1], [2, 3]],
            False: [[]],
        }
        sources = self.chance.choice(choices[by])
        spec = PartitionSpec(*(PartitionField(id, 1000 + id, PARTITIONS[id], f"p{id}") for id in sources))
        with v3_metadata(catalog):
            self.target: Table = catalog.create_table(
                name, SCHEMA, partition_spec=spec, properties=properties
            )

    @property
    def version(self) -> int:
        return self.target.metadata.format_version

    def run(self, one: Operation) -> None:
        """Runs an operation; the verbs need version 2, so PyIceberg changes a table of version 1."""
        others = (
            "delete_positions",
            "transaction",
            "index_keys",
            "expire",
            "rewrite_data_files",
            "rewrite_manifests",
        )
        is_ours = one.name in (*self.VERBS, *others)
        super().run(one._replace(name="by_pyiceberg") if is_ours and self.version == 1 else one)

    # The table ---------------------------------------------------------------------------------------------

    def on(self, branch: str) -> dict[str, Any]:
        return {"branch": branch}

    def present(self) -> Any:
        return self.target.metadata

    def own(self, schema: Schema | StructType | None = None) -> dict[str, str]:
        first = (
            {7: "a", 8: "b"}
            if isinstance(schema, StructType)
            else {f.field_id: f.name for f in SCHEMA.fields}
        )
        fields = self.target.schema().fields if schema is None else schema.fields
        return {field.name: first.get(field.field_id, f"c{field.field_id}") for field in fields}

    def shaped(self, row: Row, schema: Schema | StructType) -> Row:
        """A row in the names of a schema."""
        names, shaped = self.own(schema), {}
        for field in schema.fields:
            value = self.value_of(row, names[field.name])
            kind = field.field_type
            is_struct = isinstance(kind, StructType) and value is not None
            shaped[field.name] = self.shaped(value, kind) if is_struct else value  # type: ignore[arg-type]
        return shaped

    def value_of(self, row: Row, own: str) -> Any:
        return row.get(own, self.defaults.get(own))

    def arrow(self, rows: list[Row]) -> pa.Table:
        schema = self.target.schema()
        shaped = [self.shaped(row, schema) for row in rows]
        columns = [[row[field.name] for row in shaped] for field in schema.fields]
        return pa.table(columns, schema=schema.as_arrow())

    def later_values(self) -> Row:
        fields = [(own, self.target.schema().find_field(name)) for name, own in self.own().items()]
        return {own: self.some_value(field.field_type) for own, field in fields if own.startswith("c")}

    def some_value(self, kind: IcebergType) -> Any:
        narrow = {str(wide): name for name, wide in WIDER.items() if name != "int"}.get(str(kind), str(kind))
        if isinstance(kind, StructType):
            owns = self.own(kind).values()
            values = {own: self.some_value(f.field_type) for own, f in zip(owns, kind.fields, strict=True)}
            return self.chance.choice([None, values])
        name = "list" if isinstance(kind, ListType) else narrow
        return self.chance.choice([None, *VALUES[name][1]])

    def partition(self) -> list[str] | None:
        fields = self.target.spec().fields
        if not all(isinstance(field.transform, IdentityTransform) for field in fields):
            return None
        names = self.own()
        return [names[str(self.target.schema().find_column_name(field.source_id))] for field in fields]

    def read(self, snapshot_id: int | None = None, branch: str = "main") -> Rows:
        which: dict[str, Any] = {"branch": branch} if snapshot_id is None else {"snapshot_id": snapshot_id}
        rows = iceberg.scan(self.target, selected_fields=("*", *LINEAGE), **which).to_arrow()
        (key,) = [name for name, own in self.own(resolve(self.target, **which)[1]).items() if own == "row"]
        found = {row[key]: row for row in rows.to_pylist()}
        assert len(found) == rows.num_rows, "a row twice"
        return found

    def compare(self, branch: str | None, snapshot_id: int, rows: Rows) -> None:
        which: dict[str, Any] = {"snapshot_id": snapshot_id} if branch is None else {"branch": branch}
        schema = resolve(self.target, **which)[1]
        wanted = {
            n: {**self.shaped(row, schema), **{name: row.get(name) for name in LINEAGE}}
            for n, row in rows.items()
        }
        self.same(self.read(**which), wanted, str(which))

    def check_commit(self, before: Any) -> None:
        metadata = self.target.metadata
        assert self.catalog.load_table(self.target.name()).metadata == metadata
        new = [
            s
            for s in metadata.snapshots
            if s.snapshot_id not in self.snapshots and before.snapshot_by_id(s.snapshot_id) is None
        ]
        assert len(new) <= 1 or self.adopts
        for name, rows in self.branches.items():
            if (reference := metadata.refs.get(name)) is None:
                continue
            head = reference.snapshot_id
            is_changed = before.refs.get(name) != reference or before.schemas != metadata.schemas
            if head not in self.snapshots:
                snapshot = metadata.snapshot_by_id(head)
                assert snapshot is not None
                self.give_lineage(rows, self.read(head), snapshot.sequence_number or 0, self.fresh(before))
                self.snapshots[head] = {n: dict(row) for n, row in rows.items()}
                self.add_up(snapshot, before)
            if is_changed or self.chance.random() < 0.1:
                self.compare(name, head, rows)
                wrong = self.findings(name)
                assert [
                    one for one in wrong if not one.path.endswith(stored.NAME_END)
                ] == []  # see `lose_index`

    def findings(self, branch: str) -> list[Finding]:
        """What `verify` finds; but a foreign delete file may outlive its data files, and a vector may not."""
        found = iceberg.verify(self.target, branch=branch, threads=1)
        return [one for one in found if one.kind != "dangling" or one.path.endswith(".puffin")]

    def fresh(self, before: Any) -> range | None:
        if self.version < 3:
            return None
        return range(getattr(before, "next_row_id", 0) or 0, self.target.metadata.next_row_id or 0)  # type: ignore[union-attr]

    def add_up(self, snapshot: Any, before: Any) -> None:
        """Sequence numbers, row id ranges, and the totals of the summary."""
        if self.version > 1 and not self.adopts:
            assert snapshot.sequence_number == before.last_sequence_number + 1
        if self.version > 2 and not self.adopts:
            assert snapshot.first_row_id == before.next_row_id
            assert self.fresh(before) == range(
                snapshot.first_row_id, snapshot.first_row_id + snapshot.added_rows
            )
        tasks = iceberg.plan_files(self.target, snapshot_id=snapshot.snapshot_id).tasks
        counts = {
            "total-data-files": len(tasks),
            "total-records": sum(task.data.record_count for task in tasks),
        }
        assert {name: int(snapshot.summary[name]) for name in counts} == counts

    def known(self) -> list[int]:
        return [snapshot.snapshot_id for snapshot in self.target.metadata.snapshots]

    def state(self, snapshot_id: int | None) -> State:
        key = (snapshot_id or 0, self.target.metadata.current_schema_id)
        if key not in self._states:
            self._states[key] = State.of(self.target, snapshot_id)
        return self._states[key]

    def chains(self) -> Iterator[list[int | None]]:
        metadata = self.target.metadata
        for reference in metadata.refs.values():
            chain: list[int | None] = [reference.snapshot_id]
            while chain[-1] is not None:
                snapshot = metadata.snapshot_by_id(chain[-1])
                assert snapshot is not None
                parent = snapshot.parent_snapshot_id
                if parent is not None and metadata.snapshot_by_id(parent) is None:
                    break
                if parent is None and self.is_expired(chain[-1]):
                    break
                chain.append(parent)
            yield chain[::-1]

    def is_expired(self, first: int) -> bool:
        """Whether a snapshot without parent had one, which PyIceberg forgets when it expires."""
        try:
            iceberg.changes(self.target, None, first)
        except NotFoundError as error:
            return "has expired" in str(error)
        return False

    def changes(self, before: int | None, after: int, **options: Any) -> Any:
        with self.limited(options.pop("held_bytes", None)):
            return iceberg.changes(self.target, before, after, **options)

    @contextmanager
    def limited(self, held_bytes: str | None) -> Iterator[None]:
        """Limits the memory of held rows, and of rows that are paired."""
        self.target.io.properties.pop("puffin-fast.limit.key-bytes", None)
        if held_bytes is not None:
            self.target.io.properties["puffin-fast.limit.key-bytes"] = held_bytes
        yield

    def foreign(self) -> None:
        """PyIceberg and DuckDB, which read no equality deletes, or null otherwise than the list."""
        if self.equality or not self.target.metadata.refs.get("main"):
            return
        rows, schema, order = self.branches["main"], self.target.schema(), self.name("row")
        expected = frozen([self.shaped(rows[n], schema) for n in sorted(rows)])
        assert frozen(by_pyiceberg(self.target, order=order)) == expected, "PyIceberg reads other rows"
        if self.duckdb is not None and not self.defaults:
            assert frozen(by_duckdb(self.duckdb, self.target, order=order)) == expected, (
                "DuckDB reads other rows"
            )

    # Metadata ----------------------------------------------------------------------------------------------

    @operation(1)
    def upgrade(self, _: str) -> None:
        self.say("upgrade")
        if self.version == 1:
            self.evolve_table(lambda tx: tx.upgrade_table_version(2))
        else:
            iceberg.upgrade(self.target)

    def evolve_table(self, change: Callable[[Any], Any]) -> None:
        with v3_metadata(self.catalog), self.target.transaction() as transaction:
            change(transaction)
        self.last = None  # it spoke of other columns

    def evolve(self, change: Callable[[Any], Any]) -> None:
        with v3_metadata(self.catalog), self.target.update_schema() as update:
            change(update)
        self.last = None

    @operation(1)
    def branch_off(self, _: str) -> None:
        name = f"branch{len(self.branches)}"
        if len(self.branches) > 3 or not (head := self.target.metadata.current_snapshot_id):
            raise Nothing
        self.say(f"create {name}")
        with v3_metadata(self.catalog):
            self.target.manage_snapshots().create_branch(head, name).commit()
        self.branches[name] = {n: dict(row) for n, row in self.branches["main"].items()}

    @operation(1)
    def tag(self, _: str) -> None:
        if not self.snapshots:
            raise Nothing
        name = f"tag{next(self.jobs)}"
        self.say(f"create {name}")
        with v3_metadata(self.catalog):
            self.target.manage_snapshots().create_tag(self.chance.choice(self.known()), name).commit()

    @operation(1)
    def go_back(self, _: str) -> None:
        """To any snapshot of the table."""
        if not self.snapshots:
            raise Nothing
        snapshot_id = self.chance.choice([*self.snapshots])
        self.say(f"set current snapshot {list(self.snapshots).index(snapshot_id)}")
        with v3_metadata(self.catalog):
            self.target.manage_snapshots().set_current_snapshot(snapshot_id).commit()
        self.branches["main"] = {n: dict(row) for n, row in self.snapshots[snapshot_id].items()}
        self.last = None

    @operation(1)
    def expire(self, _: str) -> None:
        keep = self.chance.choice([1, 3])
        self.say(f"expire snapshots, {keep} left")
        iceberg.expire_snapshots(self.target, older_than=timedelta(0), retain_last=keep)
        self.snapshots = {id: rows for id, rows in self.snapshots.items() if id in self.known()}
        self.last = None  # its snapshot may be gone, and with it the job id

    @operation(1)
    def partition_otherwise(self, _: str) -> None:
        source = self.chance.choice(list(PARTITIONS))
        fields = {field.source_id: field.name for field in self.target.spec().fields}
        self.say(f"partition by {source}: {source not in fields}")
        with v3_metadata(self.catalog), self.target.update_spec() as update:
            if source in fields:
                update.remove_field(fields[source])
            else:
                column = str(self.target.schema().find_column_name(source))
                update.add_field(column, PARTITIONS[source], f"p{source}_{next(self.jobs)}")

    @operation(1)
    def add_column(self, _: str) -> None:
        name, kind = f"new{next(self.jobs)}", self.chance.choice([*VALUES, "struct"])
        of: IcebergType = STRUCT if kind == "struct" else VALUES[kind][0]
        default = 7 if self.version > 2 and kind in ("int", "long") and self.chance.random() < 0.5 else None
        self.say(f"add column {name} {kind}, default {default}")
        self.evolve(lambda update: update.add_column(name, of, default_value=default))
        if default is not None:
            self.defaults[self.own()[name]] = default

    @operation(1)
    def rename_column(self, _: str) -> None:
        inner = [f"m.{f.name}" for f in self.struct().fields]
        old = self.chance.choice([*self.target.schema().as_struct().fields])
        path = self.chance.choice([old.name, old.name, *inner])
        new = f"other{next(self.jobs)}"
        self.say(f"rename column {path} to {new}")
        self.evolve(lambda update: update.rename_column(self.path(path), new))

    def struct(self) -> StructType:
        kind = self.target.schema().find_field(5).field_type
        assert isinstance(kind, StructType)
        return kind

    def path(self, path: str) -> str:
        """A path within the first struct in its present name."""
        return path.replace("m.", f"{self.name('m')}.", 1) if path.startswith("m.") else path

    @operation(1)
    def drop_column(self, _: str) -> None:
        later = [name for name, own in self.own().items() if own.startswith("c")]
        if not later:
            raise Nothing
        name = self.chance.choice(later)
        self.say(f"drop column {name}")
        self.evolve(lambda update: update.delete_column(name))

    @operation(1)
    def promote(self, _: str) -> None:
        fields = [field for field in self.target.schema().fields if str(field.field_type) in WIDER]
        fields = [field for field in fields if field.field_id != 2]  # whose type keys are given in
        if not fields:
            raise Nothing
        field = self.chance.choice(fields)
        self.say(f"promote column {field.name} {field.field_type}")
        self.evolve(lambda update: update.update_column(field.name, WIDER[str(field.field_type)]))

    @operation(1)
    def move(self, _: str) -> None:
        name = self.chance.choice([field.name for field in self.target.schema().fields])
        self.say(f"move column {name}")
        self.evolve(lambda update: update.move_first(name))

    # Maintenance -------------------------------------------------------------------------------------------

    @operation(2)
    def rewrite(self, branch: str) -> None:
        jobs = ["compact", "repair", "convert_position_deletes", "convert_equality_deletes"]
        job = self.chance.choice(jobs)
        if self.version < 3:
            raise Nothing
        self.say(f"{job} of {branch}")
        done = self.write(job, branch=branch)
        assert job != "repair" or done.commit.id is None

    @operation(2)
    def rewrite_data_files(self, branch: str) -> None:
        least, n_files = self.chance.choice([0, 0.3, 1]), self.chance.choice([2, 5])
        size = self.chance.choice([1, 4000, 512 << 20])
        self.say(f"rewrite_data_files of {branch}: {least}, {n_files} files, {size} bytes")
        limits = {"min_deleted": least, "min_input_files": n_files, "target_file_size": size}
        done = self.write("rewrite_data_files", branch=branch, min_file_size=4000, **limits)
        assert done.data_files_left_out == done.deletes_moved == 0
        if self.version == 2:  # without lineage, which would keep the numbers of the rows
            for row in self.branches[branch].values():
                row["moved"] = True

    @operation(1)
    def rewrite_manifests(self, branch: str) -> None:
        self.say(f"rewrite_manifests of {branch}")
        self.write("rewrite_manifests", branch=branch)

    # Key indexes -------------------------------------------------------------------------------------------

    @operation(3)
    def index_keys(self, branch: str) -> None:
        """Builds or extends an index of one or two columns."""
        on = [self.name(own) for own in self.chance.choice([["id"], ["s"], ["k", "s"], ["id", "k"]])]
        if branch not in self.target.metadata.refs:
            raise Nothing
        self.say(f"index_keys {on} of {branch}")
        assert iceberg.index_keys(self.target, on, branch=branch).data_files_left == 0

    @operation(1)
    def keep_indexes(self, _: str) -> None:
        """Names the indexes that rewrites keep; their columns may be renamed later."""
        named = "; ".join(self.name(own) for own in ("id", "s"))
        self.say(f"keep indexes of {named}")
        self.evolve_table(lambda tx: tx.set_properties({KEY_INDEXES: named}))

    @operation(1)
    def lose_index(self, _: str) -> None:
        """Damages or removes a statistics file."""
        if not self.target.metadata.statistics:
            raise Nothing
        stored._known.clear()
        every = self.target.metadata.statistics
        at = self.chance.randrange(len(every))
        path = path_of(every[at].statistics_path)
        self.say(f"damage statistics file {at}")
        if self.chance.random() < 0.3 or not path.exists():
            path.unlink(missing_ok=True)
            return
        data = bytearray(path.read_bytes())
        for _bit in range(self.chance.choice([1, 9])):
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        path.write_bytes(data)

    # Other writers -----------------------------------------------------------------------------------------

    @operation(4)
    def by_pyiceberg(self, branch: str) -> None:
        """PyIceberg's verbs, of which some make several snapshots. It refuses tables with equality deletes."""
        if self.version > 2 or self.equality:
            raise Nothing
        made, where, rows = self.some_rows(1, 9), self.filter(), self.branches["main"]
        while where.text.startswith("not"):  # which to PyIceberg holds for null
            where = self.filter()
        fresh = self.rows_of_free_ids(rows)
        table, names = self.target, [self.name("id")]
        ways: dict[str, tuple[Callable[[], Any], set[int], list[Row]]] = {
            "append": (lambda: table.append(self.arrow(made)), set(), made),
            "delete": (lambda: table.delete(where.text), self.chosen("main", where.holds), []),
            "overwrite": (
                lambda: table.overwrite(self.arrow(made), where.text), self.chosen("main", where.holds), made
            ),
            "overwrite all": (lambda: table.overwrite(self.arrow(made)), {*rows}, made),
            "upsert": (
                lambda: table.upsert(self.arrow(fresh), names),
                self.chosen("main", lambda row: row["id"] in {new["id"] for new in fresh}),
                fresh,
            ),
        }  # fmt: skip
        head = table.current_snapshot()
        if head is not None and head.schema_id != table.metadata.current_schema_id:
            del ways["upsert"]  # PyIceberg reads the rows by the names of the snapshot's schema
        verb = self.chance.choice([*ways])
        self.say(f"PyIceberg: {verb}, {where.text}")
        run, gone, new = ways[verb]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
        self.adopts, self.last = True, None
        self.drop("main", gone)
        self.put("main", new)

    def some_partition(self, spec_ids: Collection[int]) -> tuple[int, tuple[Any, ...], set[str]]:
        """A spec and a partition of it with data files on the main branch, and these."""
        tasks = [t.data for t in iceberg.plan_files(self.target).tasks if t.data.spec_id in spec_ids]
        if not tasks:
            raise Nothing
        one = self.chance.choice(tasks)
        same = {t.file_path for t in tasks if (t.spec_id, t.partition) == (one.spec_id, one.partition)}
        return one.spec_id, one.partition, same

    @operation(1)
    def foreign_position_deletes(self, _: str) -> None:
        if self.version != 2:
            raise Nothing
        spec_id, partition, files = self.some_partition(self.target.specs())
        places = [place for place in self.places("main") if place[0] in files]
        self.say(f"a position-delete file of {len(places)} rows, spec {spec_id} {partition}")
        self.drop("main", self.rows_at("main", places))
        places.append(("file:///nowhere", 3))
        delete_by_file(self.target, places, spec_id=spec_id, partition=partition)

    @operation(1)
    def foreign_equality_delete(self, _: str) -> None:
        """Of the spec that the table has now: about one partition, or about all rows where it has none."""
        ids, spec = self.chance.choice([[1], [2, 3]]), self.target.spec()
        if self.version == 1 or not self.snapshots:
            raise Nothing
        _spec, partition, files = self.some_partition([spec.spec_id]) if spec.fields else (0, (), set())
        names = [str(SCHEMA.find_column_name(id)) for id in ids]
        keys = [tuple(row[name] for name in names) for row in self.new_rows([self.chance.randrange(IDS)] * 2)]
        self.say(f"an equality-delete file {names} {keys} of {partition}")
        rows = self.branches["main"]
        about = {row["row"] for row in self.located("main") if not spec.fields or row["_file"] in files}
        delete_equal(self.target, ids, keys, partition=partition)
        self.equality = self.counts_more = True
        self.drop("main", {n for n in about if tuple(rows[n][name] for name in names) in keys})


def iceberg_table(
    folder: Path, seed: int, *, version: str = "3", by: bool | None = None, **engines: Any
) -> IcebergHistory:
    """A table in a catalog of its own."""
    catalog = sqlite_catalog(folder)
    history = IcebergHistory(catalog, "n.t", seed, version, by=by, duckdb=engines.get("duckdb"))
    history.close = catalog.engine.dispose
    return history


KINDS = {
    "iceberg 1": partial(iceberg_table, version="1"),
    "iceberg 2": partial(iceberg_table, version="2"),
    "iceberg 3": partial(iceberg_table, by=False),
    "iceberg partitioned": partial(iceberg_table, by=True),
}
