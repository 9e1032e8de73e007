"""Tables, readers and cases that several tests share with `test_model`."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from puffin_fast import iceberg
from puffin_fast.errors import NotFoundError
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.index import stored
from puffin_fast.iceberg.index.properties import KEY_INDEXES
from puffin_fast.iceberg.plan.files import resolve
from tests.iceberg.conftest import local
from tests.iceberg.maintenance.delete_files import delete_by_file
from tests.rows.deletes.equality_deletes import delete_equal

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "k", IntegerType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "row", LongType()),
)
"""A key that several rows may have, two columns with nulls, and the row's own number: how rows name them here,
whatever the table calls them later. A column that came later is called by its field id."""


PARTITIONS = {1: BucketTransform(3), 2: IdentityTransform(), 3: TruncateTransform(1)}  # type: ignore[no-untyped-call]
"""The partition transforms that are tried, by source column."""


LINEAGE = ("_row_id", "_last_updated_sequence_number")


Row = dict[str, Any]


Rows = dict[int, Row]
"""Rows by their own number, with their lineage; a row id that is still to come is None."""


class Filter(NamedTuple):
    text: str
    holds: Callable[[Row], bool]


def some_filter(chance: random.Random) -> Filter:
    low, k = chance.randrange(40), chance.randrange(5)
    high = low + chance.randrange(1, 15)
    s, few = chance.choice("abc"), tuple(chance.sample(range(40), 3))
    return chance.choice(
        [
            Filter(f"id = {low}", lambda row: row["id"] == low),
            Filter(f"id >= {low} and id < {high}", lambda row: low <= row["id"] < high),
            Filter(f"id in {few}", lambda row: row["id"] in few),
            Filter(f"k = {k}", lambda row: row["k"] == k),
            Filter(
                f"not (k = {k}) and id < {low}", lambda row: row["k"] not in (None, k) and row["id"] < low
            ),
            Filter(
                f"k is null or s = '{s}' and id > {low}",
                lambda row: row["k"] is None or (row["s"] == s and row["id"] > low),
            ),
            Filter(f"s is null and k < {k}", lambda row: row["s"] is None and row["k"] in range(k)),
        ]
    )


def row_ids(rows: list[Row]) -> set[int] | None:
    """The ids of which a row that replaces others keeps one; None if it gets a new one."""
    known = [row.get("_row_id") for row in rows]
    return set().union(*(id if isinstance(id, set) else {id} for id in known)) - {None} or None


class Machine:
    """A table and the list that it should be, on each branch and for each snapshot."""

    def __init__(self, catalog: SqlCatalog, seed: int) -> None:
        self.chance = random.Random(seed)
        self.catalog = catalog
        properties = {
            "format-version": self.chance.choice("233"),
            "write.delete.granularity": self.chance.choice(["file", "partition"]),
            "write.delete.target-file-size-bytes": self.chance.choice(["1", "67108864"]),
        }
        sources = self.chance.choice([[], [], [2], [1], [2, 3]])
        spec = PartitionSpec(*(PartitionField(id, 1000 + id, PARTITIONS[id], f"p{id}") for id in sources))
        with v3_metadata(catalog):
            self.table: Table = catalog.create_table(
                "n.t", SCHEMA, partition_spec=spec, properties=properties
            )
        self.is_indexed = seed % 2 == 0
        self.log = [f"seed {seed}: {properties} by {spec}"]
        self.branches: dict[str, Rows] = {"main": {}}
        self.snapshots: dict[int, Rows] = {}
        self.numbers, self.jobs = itertools.count(), itertools.count()
        self.last: Callable[[], Any] | None = None
        self.tx: iceberg.Transaction | None = None
        self.equality = False  # rows that an equality delete hides may be counted as deleted

    # Operations ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Runs one random operation, and checks the table after it."""
        main_only = [self.branch_off, self.upgrade, self.foreign_equality_delete]
        main_only += [self.partition_otherwise, self.add_column, self.rename_column, self.drop_column]
        if self.table.metadata.format_version == 2:
            main_only += [self.foreign_position_deletes, self.foreign_append, self.foreign_delete]
        often = [*self.verbs(), self.delete_positions, self.transaction]
        seldom = [self.rewrite, self.rewrite_data_files, self.look_back, self.seek, self.repeat, self.expire]
        if self.is_indexed:
            seldom += [self.index_keys, self.index_keys, self.lose_index, self.keep_indexes]
        kind = self.chance.choices([often, seldom, main_only], [12, 4, 4])[0]
        if not self.table.metadata.snapshots:
            kind = [self.append]
        branch = self.chance.choice(list(self.branches)) if kind is often else "main"
        before = self.table.metadata
        self.chance.choice(kind)(branch)
        self.check(branch, before)

    def index_keys(self, branch: str) -> None:
        """Builds or extends an index of one or two columns."""
        on = [self.name(own) for own in self.chance.choice([["id"], ["s"], ["k", "s"], ["id", "k"]])]
        branch = self.chance.choice(list(self.branches))
        self.say(f"index_keys {on} of {branch}")
        index = iceberg.index_keys(self.table, on, branch=branch)
        assert index.data_files_left == 0

    def keep_indexes(self, branch: str) -> None:
        """Names the indexes that rewrites keep; their columns may be renamed later."""
        named = "; ".join(self.name(own) for own in ("id", "s"))
        self.say(f"keep indexes of {named}")
        with v3_metadata(self.catalog), self.table.transaction() as transaction:
            transaction.set_properties({KEY_INDEXES: named})

    def seek(self, _: str) -> None:
        """Reads rows by values, given as text or as an expression."""
        branch = self.chance.choice(list(self.branches))
        own = self.chance.choice(["id", "s", "k"])
        some: dict[str, list[Any]] = {"id": [*range(40)], "s": ["", "a", "b"], "k": [0, 1, 2, 3, 4]}
        values, name = self.chance.sample(some[own], self.chance.choice([1, 3])), self.name(own)
        where: Any = f"{name} in ({', '.join(map(repr, values))})"
        if self.chance.random() < 0.5:
            where = pc.field(name).isin(values) & (pc.field("row") >= 0)
        self.say(f"seek {where} in {branch}")
        found = iceberg.scan(self.table, where, ["row"], branch=branch).to_arrow()["row"].to_pylist()
        assert sorted(found) == sorted(n for n, row in self.branches[branch].items() if row[own] in values)

    def lose_index(self, branch: str) -> None:
        """Damages or removes a statistics file."""
        if not self.table.metadata.statistics:
            return
        stored._known.clear()
        path = local(self.chance.choice(self.table.metadata.statistics).statistics_path)
        self.say(f"damage {path.name}")
        if self.chance.random() < 0.3 or not path.exists():
            path.unlink(missing_ok=True)
            return
        data = bytearray(path.read_bytes())
        for _ in range(self.chance.choice([1, 9])):
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        path.write_bytes(data)

    def verbs(self) -> list[Callable[[str], None]]:
        verbs = [self.append, self.delete, self.delete_keys, self.upsert, self.update, self.overwrite]
        return [*verbs, self.change_feed, self.set_column, self.overwrite_partitions]

    def say(self, text: str) -> None:
        self.log.append(f"{len(self.log)}: {text}")

    def write(self, job: Callable[..., Any], *arguments: Any, branch: str, **named: Any) -> Any:
        """Runs a job, and keeps it for `repeat`; in a transaction as one of its verbs."""
        if self.tx is not None:
            return getattr(self.tx, job.__name__)(*arguments, **named)
        given = {**named, "branch": branch, "job_id": f"job-{next(self.jobs)}"}
        done = job(self.table, *arguments, **given)

        def again() -> None:
            if done is not None and done.snapshot_id is not None:
                assert job(self.table, *arguments, **given).repeated

        self.last = again
        return done

    def own(self, schema: Schema) -> dict[str, str]:
        """A schema's names of the columns to those that the rows here have."""
        return {f.name: SCHEMA.find_column_name(f.field_id) or f"c{f.field_id}" for f in schema.fields}

    def name(self, own: str) -> str:
        """The current name of a column of the table."""
        return {mine: name for name, mine in self.own(self.table.schema()).items()}[own]

    def arrow(self, rows: list[Row]) -> pa.Table:
        """Rows as the table has them now."""
        names, schema = self.own(self.table.schema()), self.table.schema().as_arrow()
        return pa.table([[row.get(names[f.name]) for row in rows] for f in schema], schema=schema)

    def new_rows(self, ids: list[int]) -> list[Row]:
        later = [own for own in self.own(self.table.schema()).values() if own.startswith("c")]
        return [
            {
                "id": id,
                "k": self.chance.choice([None, 0, 1, 2, 3, 4]),
                "s": self.chance.choice([None, "", "a", "b", "c"]),
                "row": next(self.numbers),
                **{own: self.chance.choice([None, id]) for own in later},
            }
            for id in ids
        ]

    def remove(self, branch: str, gone: set[int], done: Any) -> None:
        """Rows that a delete removes; it must have counted them."""
        self.branches[branch] = {n: row for n, row in self.branches[branch].items() if n not in gone}
        counted = done.rows_deleted
        exact = counted >= len(gone) if self.equality else counted == len(gone)
        assert exact, f"{counted} deleted, not {len(gone)}"
        assert done.snapshot_id is not None or not gone or self.tx is not None

    def transaction(self, branch: str) -> None:
        """Some verbs in one commit, of which one may fail."""
        verbs = self.chance.choices(self.verbs(), k=self.chance.choice([2, 3, 6]))
        if self.chance.random() < 0.3:
            verbs[0] = self.delete_positions  # of places that no verb has changed yet
        self.say(f"transaction on {branch}: {len(verbs)} verbs")
        job_id, self.last = f"job-{next(self.jobs)}", None
        try:
            with iceberg.transaction(self.table, branch=branch, job_id=job_id) as self.tx:
                for verb in verbs:
                    verb(branch)
                    if self.chance.random() < 0.1:
                        with pytest.raises(NotFoundError):
                            self.tx.delete("nowhere = 1")
        finally:
            self.tx = None

    def append(self, branch: str) -> None:
        made = self.new_rows([self.chance.randrange(40) for _ in range(self.chance.choice([1, 4, 12]))])
        self.say(f"append {made} to {branch}")
        self.write(iceberg.append, self.arrow(made), branch=branch)
        self.branches[branch] |= {row["row"]: row for row in made}

    def filter(self) -> Filter:
        """A filter by the names that the columns have now."""
        where = some_filter(self.chance)
        return where._replace(text=re.sub(r"\b(id|k|s)\b", lambda own: self.name(own[0]), where.text))

    def delete(self, branch: str) -> None:
        where = self.filter()
        self.say(f"delete {where.text} from {branch}")
        gone = {n for n, row in self.branches[branch].items() if where.holds(row)}
        self.remove(branch, gone, self.write(iceberg.delete, where.text, branch=branch))

    def overwrite(self, branch: str) -> None:
        where, made = self.filter(), self.new_rows([self.chance.randrange(40) for _ in range(3)])
        self.say(f"overwrite {where.text} of {branch} by {made}")
        gone = {n for n, row in self.branches[branch].items() if where.holds(row)}
        self.remove(branch, gone, self.write(iceberg.overwrite, self.arrow(made), where.text, branch=branch))
        self.branches[branch] |= {row["row"]: row for row in made}

    def places(self, branch: str) -> list[tuple[str, int]]:
        """Some positions, deleted already or not."""
        plan = iceberg.plan_files(self.table, snapshot_id=self.table.metadata.refs[branch].snapshot_id)
        every = [(t.data.file_path, at) for t in plan.tasks for at in range(t.data.record_count)]
        return sorted(self.chance.sample(every, min(len(every), self.chance.choice([1, 3, 9]))))

    def rows_at(self, branch: str, places: list[tuple[str, int]]) -> set[int]:
        named = iceberg.scan(self.table, selected_fields=("row", "_file", "_pos"), branch=branch).to_arrow()
        return {row["row"] for row in named.to_pylist() if (row["_file"], row["_pos"]) in set(places)}

    def delete_positions(self, branch: str) -> None:
        places = self.places(branch)
        self.say(f"delete_positions {places} from {branch}")
        gone = self.rows_at(branch, places)
        columns = {"file_path": [path for path, _ in places], "pos": [at for _, at in places]}
        table = pa.table(columns, pa.schema([("file_path", pa.string()), ("pos", pa.int64())]))
        self.remove(branch, gone, self.write(iceberg.delete_positions, table, branch=branch))

    def delete_keys(self, branch: str) -> None:
        on, safe = self.chance.choice([["id"], ["k", "s"]]), self.chance.random() < 0.5
        given = [[row[name] for name in on] for row in self.new_rows(self.chance.sample(range(40), 4))]
        self.say(f"delete_keys {on} {given} null_safe={safe} from {branch}")
        schema = pa.schema([SCHEMA.as_arrow().field(name) for name in on])
        keys = pa.table([list(column) for column in zip(*given, strict=True)], schema=schema)
        named = [self.name(own) for own in on]
        keys = keys.rename_columns(named)
        values = {n: [row[name] for name in on] for n, row in self.branches[branch].items()}
        gone = {n for n, value in values.items() if value in given and (safe or None not in value)}
        self.remove(branch, gone, self.write(iceberg.delete_keys, keys, named, null_safe=safe, branch=branch))

    def upsert(self, branch: str) -> None:
        rows = self.branches[branch]
        given = self.new_rows(self.chance.sample(range(40), self.chance.choice([1, 5])))
        stand = self.chance.sample(list(rows.values()), min(len(rows), 3))  # given as they are
        given = [*(row for row in given if row["id"] not in {r["id"] for r in stand}), *stand]
        names = self.own(self.table.schema()).values()
        given = [{own: row.get(own) for own in names} for row in {r["id"]: r for r in given}.values()]
        self.say(f"upsert {given} into {branch}")
        done = self.write(
            iceberg.upsert, self.arrow(given), [self.name("id")], branch=branch, duplicate_keys="replace"
        )
        counts = {"updated": 0, "inserted": 0, "unchanged": 0, "deleted": 0}
        for row in given:
            there = [n for n, old in rows.items() if old["id"] == row["id"]]
            if there == [row["row"]]:
                counts["unchanged"] += 1
                continue
            counts["updated" if there else "inserted"] += 1
            counts["deleted"] += len(there)
            rows[row["row"]] = row | {"_row_id": row_ids([rows.pop(n) for n in there])}
        assert {name: getattr(done, f"rows_{name}") for name in counts} == counts

    def change_feed(self, branch: str) -> None:
        """An upsert that deletes, too; of several changes of a key the last counts."""
        rows, ids = self.branches[branch], self.chance.sample(range(40), 6)
        given = self.new_rows([*ids, *ids[:2]])
        gone = [self.chance.random() < 0.4 for _ in given]
        self.say(f"change feed {given} of {branch}, deleting {gone}")
        order = self.chance.sample(range(len(given)), len(given))
        data = self.arrow(given).append_column("gone", pa.array(gone)).append_column("at", pa.array(order))
        options = {"delete_column": "gone", "order_column": "at", "duplicate_keys": "replace"}
        done = self.write(iceberg.upsert, data, [self.name("id")], branch=branch, **options)
        last = {given[at]["id"]: at for at in sorted(range(len(given)), key=order.__getitem__)}
        counts = {"rows_updated": 0, "rows_inserted": 0, "keys_deleted": 0, "rows_deleted": 0}
        for id, at in last.items():
            old = [rows.pop(n) for n in [n for n, row in rows.items() if row["id"] == id]]
            counts["rows_deleted"] += len(old)
            counts["keys_deleted"] += gone[at] and bool(old)
            if not gone[at]:
                counts["rows_updated" if old else "rows_inserted"] += 1
                rows[given[at]["row"]] = given[at] | {"_row_id": row_ids(old)}
        assert {name: getattr(done, name) for name in counts} == counts
        assert done.rows_superseded == len(given) - len(last)

    def set_column(self, branch: str) -> None:
        """An upsert of one column, which all rows of a key get."""
        given = {row["id"]: row["k"] for row in self.new_rows(self.chance.sample(range(40), 8))}
        self.say(f"set k of {branch}: {given}")
        names = [self.name("id"), self.name("k")]
        schema = pa.schema([(names[0], pa.int64()), (names[1], pa.int32())])
        data = pa.table([list(given), list(given.values())], schema=schema)
        options = {"update_columns": names[1:], "when_not_matched_insert_all": False, "branch": branch}
        done = self.write(iceberg.upsert, data, names[:1], **options)
        rows = self.branches[branch]
        changed = [n for n, row in rows.items() if row["id"] in given and row["k"] != given[row["id"]]]
        for n in changed:
            row = {**rows[n], "k": given[rows[n]["id"]], "_row_id": row_ids([rows[n]])}
            row.pop("_last_updated_sequence_number", None)
            rows[n] = row
        assert (done.rows_deleted, done.rows_inserted) == (len(changed), 0)

    def overwrite_partitions(self, branch: str) -> None:
        """Of a table that is partitioned by ``k``."""
        fields = self.table.spec().fields
        if [(field.source_id, type(field.transform)) for field in fields] != [(2, IdentityTransform)]:
            return
        made = self.new_rows([self.chance.randrange(40) for _ in range(2)])
        self.say(f"dynamic_partition_overwrite of {branch} by {made}")
        parts = {row["k"] for row in made}
        gone = {n for n, row in self.branches[branch].items() if row["k"] in parts}
        job = iceberg.dynamic_partition_overwrite
        self.remove(branch, gone, self.write(job, self.arrow(made), branch=branch))
        self.branches[branch] |= {row["row"]: row for row in made}

    def update(self, branch: str) -> None:
        rows = self.branches[branch]
        low = self.chance.randrange(40)
        high = low + self.chance.choice([1, 5, 20])
        more = 10_000 * (1 + next(self.numbers))  # rows stay apart by their last digits
        name, column = self.name("id"), self.name("row")
        self.say(f"update {low} <= id < {high} in {branch}: row + {more}")
        done = self.write(
            iceberg.update,
            f"{name} >= {low} and {name} < {high}",
            {column: pc.field(column) + more},
            branch=branch,
        )
        chosen = [n for n, row in rows.items() if row["id"] is not None and low <= row["id"] < high]
        for row in [rows.pop(n) for n in chosen]:
            new = row["row"] + more
            row_id = row_ids([row])
            row.pop("_last_updated_sequence_number", None)
            rows[new] = row | {"row": new, "_row_id": row_id}
        assert done.rows_updated == len(chosen)

    def rewrite(self, branch: str) -> None:
        jobs = [iceberg.compact, iceberg.repair]
        jobs += [iceberg.convert_position_deletes, iceberg.convert_equality_deletes]
        job = self.chance.choice(jobs)
        if self.table.metadata.format_version < 3:
            return
        branch = self.chance.choice(list(self.branches))
        self.say(f"{job.__name__} of {branch}")  # type: ignore[attr-defined]
        done = self.write(job, branch=branch)
        assert job is not iceberg.repair or done.snapshot_id is None

    def rewrite_data_files(self, branch: str) -> None:
        branch = self.chance.choice(list(self.branches))
        least, n_files = self.chance.choice([0, 0.3, 1]), self.chance.choice([2, 5])
        size = self.chance.choice([1, 4000, 512 << 20])
        self.say(f"rewrite_data_files of {branch}: {least}, {n_files} files, {size} bytes")
        limits = {"min_deleted": least, "min_input_files": n_files, "target_file_size": size}
        done = self.write(iceberg.rewrite_data_files, branch=branch, min_file_size=4000, **limits)
        assert done.data_files_left_out == done.deletes_moved == 0
        if (
            self.table.metadata.format_version == 2
        ):  # without lineage, which would keep the numbers of the rows
            for row in self.branches[branch].values():
                row["moved"] = True

    def expire(self, _: str) -> None:
        keep = self.chance.choice([1, 3])
        self.say(f"expire snapshots, {keep} left")
        iceberg.expire_snapshots(self.table, older_than=timedelta(0), retain_last=keep)
        left = {snapshot.snapshot_id for snapshot in self.table.metadata.snapshots}
        self.snapshots = {id: rows for id, rows in self.snapshots.items() if id in left}
        self.last = None  # its snapshot may be gone, and with it the job id

    def upgrade(self, _: str) -> None:
        self.say("upgrade")
        iceberg.upgrade(self.table)

    def branch_off(self, _: str) -> None:
        name = f"branch{len(self.branches)}"
        if len(self.branches) > 3 or not (head := self.table.metadata.current_snapshot_id):
            return
        self.say(f"create {name}")
        with v3_metadata(self.catalog):
            self.table.manage_snapshots().create_branch(head, name).commit()
        self.branches[name] = {n: dict(row) for n, row in self.branches["main"].items()}

    def partition_otherwise(self, _: str) -> None:
        source = self.chance.choice(list(PARTITIONS))
        fields = {field.source_id: field.name for field in self.table.spec().fields}
        self.say(f"partition by {source}: {source not in fields}")
        with v3_metadata(self.catalog), self.table.update_spec() as update:
            if source in fields:
                update.remove_field(fields[source])
            else:
                column = self.table.schema().find_column_name(source)
                update.add_field(column, PARTITIONS[source], f"p{source}_{next(self.jobs)}")

    def evolve(self, change: Callable[[Any], Any]) -> None:
        with v3_metadata(self.catalog), self.table.update_schema() as update:
            change(update)
        self.last = None  # it spoke of other columns

    def add_column(self, _: str) -> None:
        name = f"new{next(self.jobs)}"
        self.say(f"add column {name}")
        self.evolve(lambda update: update.add_column(name, LongType()))

    def rename_column(self, _: str) -> None:
        old = self.chance.choice([name for name in self.table.schema().column_names if name != "row"])
        new = f"other{next(self.jobs)}"
        self.say(f"rename column {old} to {new}")
        self.evolve(lambda update: update.rename_column(old, new))

    def drop_column(self, _: str) -> None:
        later = [name for name, own in self.own(self.table.schema()).items() if own.startswith("c")]
        if later:
            name = self.chance.choice(later)
            self.say(f"drop column {name}")
            self.evolve(lambda update: update.delete_column(name))

    def some_partition(self, spec_ids: Collection[int]) -> tuple[int, tuple[Any, ...], set[str]] | None:
        """A spec and a partition of it with data files on the main branch, and these."""
        tasks = [task.data for task in iceberg.plan_files(self.table).tasks if task.data.spec_id in spec_ids]
        if not tasks:
            return None
        one = self.chance.choice(tasks)
        same = {t.file_path for t in tasks if (t.spec_id, t.partition) == (one.spec_id, one.partition)}
        return one.spec_id, one.partition, same

    def foreign_position_deletes(self, branch: str) -> None:
        if (found := self.some_partition(self.table.specs())) is None:
            return
        spec_id, partition, files = found
        places = [place for place in self.places(branch) if place[0] in files]
        self.say(f"a position-delete file {places} of spec {spec_id} {partition}")
        gone = self.rows_at(branch, places)
        places.append(("file:///nowhere", 3))
        delete_by_file(self.table, places, spec_id=spec_id, partition=partition)
        self.branches[branch] = {n: row for n, row in self.branches[branch].items() if n not in gone}

    def foreign_append(self, branch: str) -> None:
        made = self.new_rows([self.chance.randrange(40) for _ in range(self.chance.choice([1, 9]))])
        self.say(f"PyIceberg appends {made}")
        self.table.append(self.arrow(made))
        self.branches[branch] |= {row["row"]: row for row in made}

    def foreign_delete(self, branch: str) -> None:
        """PyIceberg writes data files anew; it reads no equality deletes."""
        k = self.chance.randrange(5)
        gone = {n for n, row in self.branches[branch].items() if row["k"] == k}
        if self.equality or not gone:
            return
        self.say(f"PyIceberg deletes k = {k}")
        self.table.delete(f"{self.name('k')} == {k}")
        self.branches[branch] = {n: row for n, row in self.branches[branch].items() if n not in gone}

    def foreign_equality_delete(self, branch: str) -> None:
        """Of the spec that the table has now: about one partition, or about all rows where it has none."""
        ids, spec = self.chance.choice([[1], [2, 3]]), self.table.spec()
        found = self.some_partition([spec.spec_id]) if spec.fields else (0, (), set())
        if found is None:
            return
        _, partition, files = found
        names = [SCHEMA.find_column_name(id) for id in ids]
        keys = [tuple(row[name] for name in names) for row in self.new_rows([self.chance.randrange(40)] * 2)]
        self.say(f"an equality-delete file {names} {keys} of {spec} {partition}")
        rows = self.branches[branch]
        places = iceberg.scan(self.table, selected_fields=("row", "_file")).to_arrow().to_pylist()
        about = {row["row"] for row in places if not spec.fields or row["_file"] in files}
        delete_equal(self.table, ids, keys, partition=partition)
        self.equality = True
        gone = {n for n in about if tuple(rows[n][name] for name in names) in keys}
        self.branches[branch] = {n: row for n, row in rows.items() if n not in gone}

    def look_back(self, _: str) -> None:
        self.same(self.chance.choice(list(self.snapshots)))

    def repeat(self, _: str) -> None:
        self.say("the last job again")
        if self.last is not None:
            self.last()

    # Checks --------------------------------------------------------------------------------------------

    def check(self, branch: str, before: Any) -> None:
        metadata = self.table.metadata
        assert self.catalog.load_table("n.t").metadata == metadata
        new = [s for s in metadata.snapshots if s.snapshot_id not in self.snapshots]
        assert len(new) <= 1
        for name, rows in self.branches.items():
            if (reference := metadata.refs.get(name)) is None:
                continue
            if new and reference.snapshot_id == new[0].snapshot_id:
                self.give_lineage(rows, new[0], before)
                self.snapshots[reference.snapshot_id] = {n: dict(row) for n, row in rows.items()}
            self.same(reference.snapshot_id)
            if metadata.snapshot_by_id(reference.snapshot_id).schema_id != metadata.current_schema_id:
                self.compare(self.read(branch=name), rows, metadata.schema(), f"branch {name}")
            found = iceberg.verify(self.table, branch=name, threads=1)
            wrong = [w for w in found if not w.path.endswith(stored.NAME_END)]  # `lose_index` damages it
            # a foreign delete file may outlive its data files; a vector may not
            assert [w for w in wrong if w.kind != "dangling" or w.path.endswith(".puffin")] == []
        if new:
            self.add_up(new[0], before)

    def give_lineage(self, rows: Rows, snapshot: Any, before: Any) -> None:
        """Row ids once given stay; new ones are new, and each is given once."""
        found = self.read(snapshot_id=snapshot.snapshot_id)
        floor, ceiling = (
            getattr(before, "next_row_id", 0) or 0,
            getattr(self.table.metadata, "next_row_id", 0),
        )
        for n, row in rows.items():
            row.setdefault("_last_updated_sequence_number", snapshot.sequence_number)
            if n not in found or self.table.metadata.format_version < 3:
                continue
            had, has = row.get("_row_id"), found[n]["_row_id"]
            if not isinstance(had, int):
                assert has in had if had else floor <= has < ceiling, f"row {n}: id {has} of {had}, {floor}"
                row["_row_id"] = has
                if row.pop("moved", False):
                    row[LINEAGE[1]] = found[n][LINEAGE[1]]
        given = [row["_row_id"] for row in rows.values() if isinstance(row.get("_row_id"), int)]
        assert len(given) == len(set(given)), "two rows with one id"

    def add_up(self, snapshot: Any, before: Any) -> None:
        """Sequence numbers, row id ranges, and the totals of the summary."""
        assert snapshot.sequence_number == before.last_sequence_number + 1
        if self.table.metadata.format_version > 2:
            assert snapshot.first_row_id == before.next_row_id
            assert self.table.metadata.next_row_id == snapshot.first_row_id + snapshot.added_rows
        tasks = iceberg.plan_files(self.table, snapshot_id=snapshot.snapshot_id).tasks
        counts = {
            "total-data-files": len(tasks),
            "total-records": sum(task.data.record_count for task in tasks),
        }
        assert {name: int(snapshot.summary[name]) for name in counts} == counts

    def read(self, **which: Any) -> Rows:
        rows = iceberg.scan(self.table, selected_fields=("*", *LINEAGE), **which).to_arrow()
        names = self.own(resolve(self.table, **which)[1])
        rows = rows.rename_columns([names.get(name, name) for name in rows.column_names])
        found = {row["row"]: row for row in rows.to_pylist()}
        assert len(found) == rows.num_rows, "a row twice"
        return found

    def same(self, snapshot_id: int) -> None:
        """A snapshot reads as the list was, in the columns that the table had then."""
        schema = resolve(self.table, snapshot_id=snapshot_id)[1]
        found, expected = self.read(snapshot_id=snapshot_id), self.snapshots[snapshot_id]
        self.compare(found, expected, schema, f"snapshot {snapshot_id}")

    def compare(self, found: Rows, expected: Rows, schema: Schema, what: str) -> None:
        """A table of version 2 has no lineage."""
        assert found.keys() == expected.keys(), (
            f"{what}: rows {sorted(expected.keys() - found.keys())} are missing, "
            f"{sorted(found.keys() - expected.keys())} came back"
        )
        for n, row in found.items():
            want = {name: expected[n].get(name) for name in (*self.own(schema).values(), *LINEAGE)}
            if row["_row_id"] is None:
                want |= dict.fromkeys(LINEAGE)
            assert row == want, what
