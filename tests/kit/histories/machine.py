"""The machine of histories: operations as data, the verbs that all formats have, and the list that a table follows.

An operation is a name and a number: the number seeds all its choices, which it makes of the table as it then is. So
any part of a list of operations can be run again, and `shortest` finds the shortest one that fails.
"""

from __future__ import annotations

import itertools
import random
import re
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast.errors import InvalidInputError, NotFoundError
from tests.kit.changes import State, check_changes, frozen

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("m", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("row", pa.int64()),
    ]
)
"""A key that several rows may have, columns with nulls, and the row's own number: how rows name them here, whatever the
table calls them later. A column that came later is called by its field id."""

IDS = 40
LINEAGE = ("_row_id", "_last_updated_sequence_number")

Row = dict[str, Any]
Rows = dict[int, Row]
"""Rows by their own number, with their lineage; a row id that is still to come is None."""


class Operation(NamedTuple):
    name: str
    seed: int


class Filter(NamedTuple):
    text: Any
    holds: Callable[[Row], bool]


Verb = TypeVar("Verb", bound=Callable[..., None])


def operation(weight: int) -> Callable[[Verb], Verb]:
    """Marks a method as an operation, planned as often as its weight says."""

    def marked(verb: Verb) -> Verb:
        verb.weight = weight  # type: ignore[attr-defined]
        return verb

    return marked


class Nothing(Exception):
    """The table as it is does not have what an operation is about."""


def row_ids(rows: list[Row]) -> set[int] | None:
    """The ids of which a row that replaces others keeps one; None if it gets a new one."""
    known = [row.get("_row_id") for row in rows]
    return set().union(*(id if isinstance(id, set) else {id} for id in known)) - {None} or None


class History:
    """A table and the list that it should be, on each branch and for each snapshot.

    Attributes:
        api: the module with the verbs of the format.
        target: their first argument.
        texts: values of the column ``s``.
        snapshots: the rows of each snapshot that is known.
        said: what each operation did.
        close: frees what the table has opened.
    """

    api: ClassVar[Any]
    target: Any
    texts: tuple[str | None, ...] = (None, "", "a", "b", "b/ %", "ü")
    lacks: frozenset[str] = frozenset()

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.close: Callable[[], object] = lambda: None
        self.branches: dict[str, Rows] = {"main": {}}
        self.snapshots: dict[int, Rows] = {}
        self.numbers, self.jobs = itertools.count(), itertools.count()
        self.said: list[str] = []
        self.last: Callable[[], Any] | None = None
        self.tx: Any = None
        self.adopts = False  # the last operation gave lineage as it liked
        self.counts_more = False  # a delete may count rows that an equality delete hides

    @classmethod
    def weights(cls) -> dict[str, int]:
        """The operations that the format has, and how often each is planned."""
        named = {name: getattr(cls, name) for name in dir(cls)}
        found = {name: verb.weight for name, verb in named.items() if hasattr(verb, "weight")}
        return {name: weight for name, weight in found.items() if name not in cls.lacks}

    # What formats have of their own ----------------------------------------------------------------------

    def on(self, branch: str) -> dict[str, Any]:
        """The option of verbs that names a branch."""
        raise NotImplementedError

    def own(self) -> dict[str, str]:
        """The present columns, and what rows call them here."""
        raise NotImplementedError

    def arrow(self, rows: list[Row]) -> pa.Table:
        """Rows as the table has them now."""
        raise NotImplementedError

    def later_values(self) -> Row:
        """Values of the columns that came later."""
        return {}

    def partition(self) -> list[str] | None:
        """The columns by whose values the table is partitioned; None if it is by others or transforms."""
        raise NotImplementedError

    def read(self, snapshot_id: int | None = None, branch: str = "main") -> Rows:
        """The rows of a snapshot, or of a branch with its present columns."""
        raise NotImplementedError

    def compare(self, branch: str | None, snapshot_id: int, rows: Rows) -> None:
        """Compares what a scan reads with rows: of a branch in the present columns, or of a snapshot in its own."""
        raise NotImplementedError

    def check_commit(self, before: Any) -> None:
        """Checks metadata and each branch, and keeps the rows of new heads; `before` is what `present` was."""
        raise NotImplementedError

    def present(self) -> Any:
        raise NotImplementedError

    def known(self) -> list[int]:
        """All snapshots that are there."""
        raise NotImplementedError

    def state(self, snapshot_id: int | None) -> State:
        """The rows of a snapshot in the present columns; None is the empty table."""
        raise NotImplementedError

    def chains(self) -> Iterator[list[int | None]]:
        """Of each branch the snapshots that are there, from the oldest to the newest."""
        raise NotImplementedError

    def changes(self, before: int | None, after: int, **options: Any) -> Any:
        """The changes between two snapshots."""
        raise NotImplementedError

    def foreign(self) -> None:
        """Compares the main branch with what other implementations read."""

    # Running ---------------------------------------------------------------------------------------------

    def run(self, one: Operation) -> None:
        """Runs an operation, and checks the table after it."""
        self.chance = random.Random(one.seed)
        branch = self.chance.choice(list(self.branches))
        self.said.append("nothing")
        before = self.present()
        try:
            getattr(self, one.name)(branch)
        except Nothing:
            return
        self.check_commit(before)
        self.adopts = False

    def finish(self) -> None:
        """Checks the whole history."""
        for snapshot_id, rows in self.snapshots.items():
            self.compare(None, snapshot_id, rows)
        check_changes(self, self.chance)
        self.foreign()

    def say(self, text: str) -> None:
        before = self.said.pop()
        self.said.append(text if before == "nothing" else f"{before}; {text}")

    def name(self, own: str) -> str:
        """The present name of a column."""
        return {mine: name for name, mine in self.own().items()}[own]

    def write(self, verb: str, *arguments: Any, branch: str, **options: Any) -> Any:
        """Runs a verb, and keeps it for `repeat`; in a transaction as one of its verbs."""
        if self.tx is not None:
            return getattr(self.tx, verb)(*arguments, **options)
        job = getattr(self.api, verb)
        given = {**options, **self.on(branch), "job_id": f"job-{next(self.jobs)}"}
        if "threads" in signature(job).parameters:
            given["threads"] = self.chance.choice([1, 3])
        done = job(self.target, *arguments, **given)

        def again() -> None:
            if done.commit.id is not None:
                assert job(self.target, *arguments, **given).commit.repeated

        self.last = again
        return done

    # Rows ------------------------------------------------------------------------------------------------

    def new_rows(self, ids: Sequence[int]) -> list[Row]:
        chance = self.chance
        return [
            {
                "id": id,
                "k": chance.choice([None, 0, 1, 2, 3, 4]),
                "s": chance.choice(self.texts),
                "x": chance.choice([None, 0.0, -0.0, float("nan"), 0.5, 1.5, 2.0]),
                "m": chance.choice([None, {"a": chance.randrange(5), "b": "x"}, {"a": None, "b": None}]),
                "row": next(self.numbers),
                **self.later_values(),
            }
            for id in ids
        ]

    def some_rows(self, *sizes: int) -> list[Row]:
        return self.new_rows([self.chance.randrange(IDS) for _ in range(self.chance.choice(sizes))])

    def rows_of_free_ids(self, rows: Rows) -> list[Row]:
        """New rows of ids that no two rows have."""
        many = [row["id"] for row in rows.values()]
        return self.new_rows(self.chance.sample([id for id in range(IDS) if many.count(id) < 2], 4))

    def filter(self, *, is_text: bool = True) -> Filter:
        """A filter in the present names of columns: SQL that all engines understand the same way, or an expression."""
        chance = self.chance
        low, k = chance.randrange(IDS), chance.randrange(5)
        high = low + chance.randrange(1, 15)
        s, few = chance.choice(("a", "b", "b/ %")), tuple(chance.sample(range(IDS), 3))
        filters = [
            Filter(f"id = {low}", lambda row: row["id"] == low),
            Filter(f"id >= {low} and id < {high}", lambda row: low <= row["id"] < high),
            Filter(f"id in {few}", lambda row: row["id"] in few),
            Filter(f"k = {k}", lambda row: row["k"] == k),
            Filter(f"s = '{s}' and x = 1.5", lambda row: row["s"] == s and row["x"] == 1.5),
            Filter(
                f"not (k = {k}) and id < {low}", lambda row: row["k"] not in (None, k) and row["id"] < low
            ),
            Filter(
                f"k is null or s = '{s}' and id > {low}",
                lambda row: row["k"] is None or (row["s"] == s and row["id"] > low),
            ),
            Filter(f"s is null and k < {k}", lambda row: row["s"] is None and row["k"] in range(k)),
        ]
        where = chance.choice(filters)
        if not is_text and chance.random() < 0.2:
            return Filter(pc.field(self.name("x")) * 2 == 3, lambda row: row["x"] == 1.5)
        return where._replace(text=re.sub(r"\b(id|k|s|x)\b(?!')", lambda own: self.name(own[0]), where.text))

    def put(self, branch: str, rows: list[Row]) -> None:
        self.branches[branch] |= {row["row"]: row for row in rows}

    def chosen(self, branch: str, holds: Callable[[Row], bool]) -> set[int]:
        return {n for n, row in self.branches[branch].items() if holds(row)}

    def drop(self, branch: str, gone: set[int]) -> None:
        self.branches[branch] = {n: row for n, row in self.branches[branch].items() if n not in gone}

    def remove(self, branch: str, gone: set[int], done: Any) -> None:
        """Rows that a verb removes; it must have counted them."""
        self.drop(branch, gone)
        counted = done.rows_deleted
        assert counted >= len(gone) if self.counts_more else counted == len(gone), (
            f"{counted}, not {len(gone)}"
        )
        assert not gone or self.tx is not None or done.commit.id is not None

    def change(self, branch: str, chosen: set[int], values: Callable[[Row], Row]) -> None:
        """Rows that an update changes, which keep their row ids."""
        rows = self.branches[branch]
        for old in [rows.pop(n) for n in sorted(chosen)]:
            new = {**old, **values(old), "_row_id": row_ids([old])}
            new.pop(LINEAGE[1], None)
            rows[new["row"]] = new

    # Verbs of all formats ----------------------------------------------------------------------------------

    VERBS = (
        "append", "delete", "delete_keys", "upsert", "update", "overwrite", "change_feed", "set_columns",
        "overwrite_partitions",
    )  # fmt: skip

    @operation(6)
    def append(self, branch: str) -> None:
        made = self.some_rows(1, 4, 12)
        self.say(f"append {len(made)} rows to {branch}")
        self.write("append", self.arrow(made), branch=branch)
        self.put(branch, made)

    @operation(3)
    def delete(self, branch: str) -> None:
        where = self.filter(is_text=False)
        self.say(f"delete {where.text} from {branch}")
        gone = self.chosen(branch, where.holds)
        self.remove(branch, gone, self.write("delete", where.text, branch=branch))

    @operation(3)
    def overwrite(self, branch: str) -> None:
        where, made = self.filter(is_text=False), self.some_rows(1, 3)
        self.say(f"overwrite {where.text} of {branch} by {len(made)} rows")
        gone = self.chosen(branch, where.holds)
        done = self.write("overwrite", self.arrow(made), where.text, branch=branch)
        assert done.rows_appended == len(made)
        self.remove(branch, gone, done)
        self.put(branch, made)

    @operation(3)
    def overwrite_partitions(self, branch: str) -> None:
        made, by = self.some_rows(2), self.partition()
        if by is None:
            raise Nothing
        self.say(f"dynamic_partition_overwrite of {branch} by {by}")
        if not by:
            with pytest.raises(InvalidInputError, match="partitioned"):
                self.write("dynamic_partition_overwrite", self.arrow(made), branch=branch)
            return
        parts = {tuple(row[own] for own in by) for row in made}
        gone = self.chosen(branch, lambda row: tuple(row[own] for own in by) in parts)
        self.remove(branch, gone, self.write("dynamic_partition_overwrite", self.arrow(made), branch=branch))
        self.put(branch, made)

    @operation(3)
    def delete_keys(self, branch: str) -> None:
        on, safe = self.chance.choice([["id"], ["k", "s"]]), self.chance.random() < 0.5
        given = [[row[name] for name in on] for row in self.new_rows(self.chance.sample(range(IDS), 4))]
        self.say(f"delete_keys {on} {given} null_safe={safe} from {branch}")
        schema = pa.schema([COLUMNS.field(own).with_name(self.name(own)) for own in on])
        keys = pa.table([list(column) for column in zip(*given, strict=True)], schema=schema)
        gone = self.chosen(
            branch, lambda row: (key := [row[own] for own in on]) in given and (safe or None not in key)
        )
        self.remove(
            branch, gone, self.write("delete_keys", keys, schema.names, null_safe=safe, branch=branch)
        )

    @operation(3)
    def upsert(self, branch: str) -> None:
        rows = self.branches[branch]
        on = self.chance.choice([["id"], ["id"], ["id", "s"]])

        def key(row: Row) -> tuple[Any, ...]:
            return tuple(row[own] for own in on)

        given = self.new_rows(self.chance.sample(range(IDS), self.chance.choice([1, 5])))
        as_they_are = self.chance.sample(list(rows.values()), min(len(rows), 3))
        every = {key(row): row for row in [*given, *as_they_are] if None not in key(row)}
        names = self.own().values()
        given = [{own: self.value_of(row, own) for own in names} for row in every.values()]
        self.say(f"upsert {len(given)} rows by {on} into {branch}")
        columns, options = [self.name(own) for own in on], {"duplicate_keys": "replace"}
        done = self.write("upsert", self.arrow(given), columns, branch=branch, **options)
        counts = {"updated": 0, "inserted": 0, "unchanged": 0, "deleted": 0}
        for row in given:
            there = [n for n, old in rows.items() if key(old) == key(row)]
            if there == [row["row"]]:
                counts["unchanged"] += 1
                continue
            counts["updated" if there else "inserted"] += 1
            counts["deleted"] += len(there)
            rows[row["row"]] = row | {"_row_id": row_ids([rows.pop(n) for n in there])}
        assert {name: getattr(done, f"rows_{name}") for name in counts} == counts

    def value_of(self, row: Row, own: str) -> Any:
        return row.get(own)

    @operation(3)
    def change_feed(self, branch: str) -> None:
        """An upsert that deletes, too; of several changes of a key the last counts."""
        rows, ids = self.branches[branch], self.chance.sample(range(IDS), 6)
        given = self.new_rows([*ids, *ids[:2]])
        gone = [self.chance.random() < 0.4 for _ in given]
        self.say(f"a change feed of {branch}: {[*zip([row['id'] for row in given], gone, strict=True)]}")
        order = self.chance.sample(range(len(given)), len(given))
        data = self.arrow(given).append_column("gone", pa.array(gone)).append_column("at", pa.array(order))
        options = {"delete_column": "gone", "order_column": "at", "duplicate_keys": "replace"}
        done = self.write("upsert", data, [self.name("id")], branch=branch, **options)
        last = {given[at]["id"]: at for at in sorted(range(len(given)), key=order.__getitem__)}
        counts = {"rows_updated": 0, "rows_inserted": 0, "keys_deleted": 0, "rows_deleted": 0}
        for id, at in last.items():
            old = [rows.pop(n) for n in [n for n, row in rows.items() if row["id"] == id]]
            counts["rows_deleted"] += len(old)
            counts["keys_deleted"] += gone[at] and bool(old)
            if not gone[at]:
                counts["rows_updated" if old else "rows_inserted"] += 1
                rows[given[at]["row"]] = given[at] | {"_row_id": row_ids(old)}
        counts["rows_superseded"] = len(given) - len(last)
        assert {name: getattr(done, name) for name in counts} == counts

    @operation(3)
    def set_columns(self, branch: str) -> None:
        """An upsert of one column, which all rows of a key get."""
        given = {row["id"]: row["k"] for row in self.new_rows(self.chance.sample(range(IDS), 8))}
        self.say(f"set k of {branch}: {given}")
        names = [self.name("id"), self.name("k")]
        schema = pa.schema([(names[0], pa.int64()), (names[1], pa.int32())])
        data = pa.table([list(given), list(given.values())], schema=schema)
        options = {"update_columns": names[1:], "when_not_matched_insert_all": False}
        done = self.write("upsert", data, names[:1], branch=branch, **options)
        changed = self.chosen(branch, lambda row: row["id"] in given and row["k"] != given[row["id"]])
        self.change(branch, changed, lambda row: {"k": given[row["id"]]})
        assert (done.rows_deleted, done.rows_inserted) == (len(changed), 0)

    @operation(3)
    def update(self, branch: str) -> None:
        where = self.filter(is_text=False)
        more = 10_000 * (1 + next(self.numbers))  # rows stay apart by their last digits
        s, row, x = self.chance.choice(self.texts), self.name("row"), self.name("x")
        ways: list[tuple[Row, Callable[[Row], Row]]] = [
            ({row: pc.field(row) + more}, lambda old: {"row": old["row"] + more}),
            (
                {x: pc.field(x) + 1, self.name("s"): s},
                lambda old: {"x": None if old["x"] is None else old["x"] + 1, "s": s},
            ),
        ]
        values, of = self.chance.choice(ways)
        self.say(f"update {where.text} in {branch}: {[*values]}")
        chosen = self.chosen(branch, where.holds)
        done = self.write("update", where.text, values, branch=branch)
        self.change(branch, chosen, of)
        assert done.rows_updated == len(chosen)

    @operation(4)
    def delete_positions(self, branch: str) -> None:
        places = self.places(branch)
        self.say(f"delete_positions {len(places)} from {branch}")
        gone = self.rows_at(branch, places)
        columns = {"file_path": [path for path, _ in places], "pos": [at for _, at in places]}
        table = pa.table(columns, pa.schema([("file_path", pa.string()), ("pos", pa.int64())]))
        self.remove(branch, gone, self.write("delete_positions", table, branch=branch))

    def located(self, branch: str) -> list[Row]:
        """The numbers of a branch's rows, with their files and positions."""
        names = (self.name("row"), "_file", "_pos")
        found = self.api.scan(self.target, selected_fields=names, **self.on(branch)).to_arrow()
        return found.rename_columns(["row", *names[1:]]).to_pylist()  # type: ignore[no-any-return]

    def places(self, branch: str) -> list[tuple[str, int]]:
        """Some positions of data files, deleted already or not."""
        longest: dict[str, int] = {}
        for row in self.located(branch):
            longest[row["_file"]] = max(row["_pos"], longest.get(row["_file"], 0))
        every = [(path, at) for path, last in longest.items() for at in range(last + 1)]
        return sorted(self.chance.sample(every, min(len(every), self.chance.choice([1, 3, 9]))))

    def rows_at(self, branch: str, places: list[tuple[str, int]]) -> set[int]:
        return {row["row"] for row in self.located(branch) if (row["_file"], row["_pos"]) in set(places)}

    @operation(4)
    def transaction(self, branch: str) -> None:
        """Some verbs in one commit, of which one may fail."""
        verbs = [name for name in self.VERBS if name not in self.lacks]
        chosen = self.chance.choices(verbs, k=self.chance.choice([2, 3, 6]))
        if self.chance.random() < 0.3:
            chosen[0] = "delete_positions"  # of places that no verb has changed yet
        job_id, self.last = f"job-{next(self.jobs)}", None
        self.say(f"a transaction on {branch}")
        try:
            with self.api.transaction(self.target, job_id=job_id, **self.on(branch)) as self.tx:
                for verb in chosen:
                    try:
                        getattr(self, verb)(branch)
                    except Nothing:
                        continue
                    if self.chance.random() < 0.1:
                        with pytest.raises(NotFoundError):
                            self.tx.delete("nowhere = 1")
        finally:
            self.tx = None

    @operation(2)
    def repeat(self, _: str) -> None:
        self.say("the last job again")
        if self.last is None:
            raise Nothing
        self.last()

    # Looks -------------------------------------------------------------------------------------------------

    @operation(1)
    def look_back(self, _: str) -> None:
        if not self.snapshots:
            raise Nothing
        snapshot_id = self.chance.choice(list(self.snapshots))
        self.say(f"look at snapshot {list(self.snapshots).index(snapshot_id)}")
        self.compare(None, snapshot_id, self.snapshots[snapshot_id])

    @operation(4)
    def seek(self, branch: str) -> None:
        """Reads and counts rows by a filter, or by values given as text or as an expression; some columns, a limit."""
        own = self.chance.choice(["id", "s", "k"])
        some: dict[str, list[Any]] = {"id": [*range(IDS)], "s": ["", "a", "b"], "k": [0, 1, 2, 3, 4]}
        values, name = self.chance.sample(some[own], self.chance.choice([1, 3])), self.name(own)
        row = self.name("row")
        where = self.chance.choice(
            [
                self.filter(is_text=False),
                Filter(f"{name} in ({', '.join(map(repr, values))})", lambda row: row[own] in values),
                Filter(pc.field(name).isin(values) & (pc.field(row) >= 0), lambda row: row[own] in values),
            ]
        )
        self.say(f"seek {where.text} in {branch}")
        scan = self.api.scan(self.target, where.text, [row], **self.on(branch))
        wanted = sorted(self.chosen(branch, where.holds))
        found = scan.to_arrow()[row].to_pylist()
        assert sorted(found) == wanted
        assert scan.count() == len(wanted)
        assert scan.limit(2).to_arrow()[row].to_pylist() == found[:2]

    @operation(2)
    def compare_changes(self, _: str) -> None:
        self.say("compare changes")
        check_changes(self, self.chance, n_pairs=1, whole=False)

    @operation(2)
    def read_by_others(self, _: str) -> None:
        self.say("read by other engines")
        self.foreign()

    # Comparing ---------------------------------------------------------------------------------------------

    def give_lineage(self, rows: Rows, found: Rows, sequence: int, fresh: range | None) -> None:
        """Row ids once given stay; new ones are new, and each is given once.

        Args:
            rows: of a new head.
            found: what a scan reads of it.
            sequence: the sequence number of its commit.
            fresh: the new row ids of the commit; None if the table gives none.
        """
        for n, row in rows.items():
            if n not in found:
                continue
            if self.adopts:
                has_ids = found[n]["_row_id"] is not None
                row |= {name: found[n][name] for name in LINEAGE} if has_ids else {"moved": True}
                continue
            row.setdefault(LINEAGE[1], sequence)
            if fresh is None:
                continue
            had, has = row.get("_row_id"), found[n]["_row_id"]
            if not isinstance(had, int):
                assert has in (had or fresh), f"row {n}: id {has} of {had}, {fresh}"
                row["_row_id"] = has
                if row.pop("moved", False):
                    row[LINEAGE[1]] = found[n][LINEAGE[1]]
        given = [row["_row_id"] for row in rows.values() if isinstance(row.get("_row_id"), int)]
        assert len(given) == len(set(given)), "two rows with one id"

    def same(self, found: Rows, wanted: Rows, what: str) -> None:
        """Compares rows; those of a table without lineage have none."""
        assert found.keys() == wanted.keys(), (
            f"{what}: rows {sorted(wanted.keys() - found.keys())} are missing, "
            f"{sorted(found.keys() - wanted.keys())} came back"
        )
        for n, row in found.items():
            want = dict(wanted[n])
            if row["_row_id"] is None:
                want |= dict.fromkeys(LINEAGE)
            assert {name: frozen(value) for name, value in row.items()} == {
                name: frozen(value) for name, value in want.items()
            }, f"{what}: row {n}"


# Running, and the shortest program of a failure ---------------------------------------------------------------

Make = Callable[[str, int, Path], History]


def plan(cls: type[History], seed: int, n: int) -> list[Operation]:
    """Random operations of a format, of which the first two append."""
    chance, weights = random.Random(seed), cls.weights()
    names = ["append", "append", *chance.choices([*weights], [*weights.values()], k=n - 2)]
    return [Operation(name, chance.randrange(10**6)) for name in names]


def place_of(error: BaseException) -> tuple[type[BaseException], str]:
    """What makes two failures the same one: their type, and the innermost line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return type(error), f"{last.filename}:{last.lineno}"


def shortest(
    run: Callable[[Sequence[Operation]], BaseException | None],
    operations: Sequence[Operation],
    error: BaseException,
    budget_s: float,
) -> list[Operation]:
    """Leaves operations out, many at first, as long as the rest fails in the same place."""
    left, until = list(operations), time.monotonic() + budget_s
    size = max(1, len(left) // 2)
    while True:
        at = len(left)
        while at > 0 and time.monotonic() < until:
            at -= size
            shorter = left[: max(at, 0)] + left[at + size :]
            again = run(shorter)
            if again is not None and place_of(again) == place_of(error):
                left = shorter
        if size == 1 or time.monotonic() >= until:
            return left
        size //= 2


def program(
    kind: str, seed: int, operations: Sequence[Operation], said: Sequence[str], engines: Iterable[str]
) -> str:
    """A program that repeats a failure."""
    told = itertools.chain((text.replace("\n", " ")[:80] for text in said), itertools.repeat("not reached"))
    lines = [
        f"    ({one.name!r}, {one.seed}),  # {text}" for one, text in zip(operations, told, strict=False)
    ]
    given = "".join(f", {name}={name}" for name in engines)
    return "\n".join(
        ["from tests.kit.histories import replay", "", f"replay({kind!r}, {seed}, [", *lines, f"]{given})"]
    )
