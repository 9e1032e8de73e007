"""What stands between the laws and the public functions: verbs, workers, and what cannot be done.

A law calls verbs through `Subject.run` only, so that this is the only file that knows how a function is called.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast import spark
from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.rows.scan.explain import Explanation
from tests.delta.tables import commit_of
from tests.kit.kinds import AnyTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
Rows = dict[int, Row]
"""Rows by their `id`."""

SCHEMA = pa.schema(
    [("id", pa.int64()), ("g", pa.string()), ("x", pa.float64()), ("s", pa.struct([("a", pa.int32())]))]
)


def row(id: int, g: str | None = None, x: float | None = None) -> Row:
    return {"id": id, "g": g, "x": id / 2 if x is None else x, "s": None if id % 5 == 0 else {"a": id % 7}}


def of(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


START: Rows = {id: row(id, ("a", "b/ %", None)[id % 3]) for id in range(12)}
"""The rows of two appends, of six each."""

DELETED = (3, 8)
"""Rows of `START` that were deleted since."""

LIVE: Rows = {id: one for id, one in START.items() if id not in DELETED}


# Verbs ------------------------------------------------------------------------------------------------


class Verb(NamedTuple):
    """A verb with arguments, for a table with the rows of `LIVE`.

    Attributes:
        function: its name.
        arguments: of the function after the table; given the table. Rows are Arrow tables.
        after: what it makes of the rows of a list.
        counts: of rows and keys in its result.
        options: of the function.
        merges: words of the kinds on which it never conflicts with `RIVAL`.
        nothing: arguments with which it changes nothing; None if it has nothing to do after it ran.
    """

    function: str
    arguments: Callable[[Subject], tuple[Any, ...]]
    after: Callable[[Rows], Rows]
    counts: Mapping[str, int]
    options: Mapping[str, Any] = {}
    merges: str = ""
    nothing: tuple[Any, ...] | None = None


def given(*arguments: Any) -> Callable[[Subject], tuple[Any, ...]]:
    return lambda table: arguments


def without(ids: Sequence[int], new: Sequence[Row] = ()) -> Callable[[Rows], Rows]:
    return lambda rows: (
        {id: one for id, one in rows.items() if id not in ids} | {one["id"]: one for one in new}
    )


def places(table: Subject) -> tuple[pa.Table]:
    """The positions of two rows, one of them twice."""
    found = table.table.read("id", "_file", "_pos", row_filter="id = 2 or id = 7")
    rows = [(one["_file"], one["_pos"]) for one in (*found, found[0])]
    return (pa.table({"file_path": [path for path, _ in rows], "pos": [pos for _, pos in rows]}),)


NEW = [row(20), row(21, "a")]
NO_ROWS = SCHEMA.empty_table()
NO_PLACES = pa.schema([("file_path", pa.string()), ("pos", pa.int64())]).empty_table()
UPSERTED = [row(2, "b/ %", 7.5), LIVE[4], row(20, "ü")]
FEED = [
    {**row(2), "at": 2, "gone": True},
    {**row(2, "a", 1.0), "at": 1, "gone": False},
    {**row(5, "ü"), "at": 1, "gone": False},
    {**row(20), "at": 1, "gone": False},
]
CHANGES = [
    {**row(1, "b/ %"), "_change_type": "update_preimage", "_change_ordinal": 0},
    {**row(1, "ü"), "_change_type": "update_postimage", "_change_ordinal": 0},
    {**row(2), "_change_type": "DELETE", "_change_ordinal": 1},
    {**row(20), "_change_type": "insert", "_change_ordinal": 1},
    {**row(20), "_change_type": "delete", "_change_ordinal": 2},
    {**row(21, "a"), "_change_type": "Insert", "_change_ordinal": 2},
]
CHANGES_SCHEMA = SCHEMA.append(pa.field("_change_type", pa.string())).append(
    pa.field("_change_ordinal", pa.int32())
)
FEED_SCHEMA = SCHEMA.append(pa.field("at", pa.int64())).append(pa.field("gone", pa.bool_()))


def updated(rows: Rows) -> Rows:
    return {id: one | ({"x": one["x"] + 1, "g": "ü"} if 4 <= id < 9 else {}) for id, one in rows.items()}


VERBS = {
    "append": Verb(
        "append",
        given(of(NEW)),
        without((), NEW),
        {"rows_appended": 2},
        merges="iceberg delta",
        nothing=(NO_ROWS,),
    ),
    "delete": Verb(
        "delete", given("id >= 2 and id < 6"), without((2, 4, 5)), {"rows_deleted": 3}, nothing=("id = 99",)
    ),
    "delete of files": Verb(
        "delete", given("id < 6"), without(range(6)), {"rows_deleted": 5}, nothing=("g = 'a' and g = 'b/ %'",)
    ),
    "delete_positions": Verb(
        "delete_positions", places, without((2, 7)), {"rows_deleted": 2}, nothing=(NO_PLACES,)
    ),
    "delete_keys": Verb(
        "delete_keys",
        given(pa.table({"id": [2, 4, 99]}), "id"),
        without((2, 4)),
        {"rows_deleted": 2},
        nothing=(pa.table({"id": [3, 99]}), "id"),
    ),
    "update": Verb(
        "update",
        given("id >= 4 and id < 9", {"x": pc.field("x") + 1, "g": "ü"}),
        updated,
        {"rows_updated": 4},
        nothing=("id = 3", {"x": 1.5}),
    ),
    "upsert": Verb(
        "upsert",
        given(of(UPSERTED), "id"),
        without((), UPSERTED),
        {"rows_updated": 1, "rows_inserted": 1, "rows_unchanged": 1},
        nothing=(of([LIVE[4]]), "id"),
    ),
    "upsert of a feed": Verb(
        "upsert",
        given(pa.Table.from_pylist(FEED, FEED_SCHEMA), "id"),
        without((2,), [row(5, "ü"), row(20)]),
        {"keys_deleted": 1, "rows_superseded": 1, "rows_updated": 1, "rows_inserted": 1},
        {"delete_column": "gone", "order_column": "at"},
        nothing=(pa.Table.from_pylist([row(3) | {"at": 2, "gone": True}], FEED_SCHEMA), "id"),
    ),
    "upsert of changes": Verb(
        "upsert",
        given(pa.Table.from_pylist(CHANGES, CHANGES_SCHEMA), "id"),
        without((2,), [row(1, "ü"), row(21, "a")]),
        {"rows_updated": 1, "rows_inserted": 1, "keys_deleted": 1, "rows_superseded": 2},
        {"changes": True},
        nothing=(pa.Table.from_pylist(CHANGES[3:5], CHANGES_SCHEMA), "id"),
    ),
    "overwrite": Verb(
        "overwrite",
        given(of(NEW), "id < 4"),
        without(range(4), NEW),
        {"rows_deleted": 3, "rows_appended": 2},
        nothing=(NO_ROWS, "id = 99"),
    ),
    "dynamic_partition_overwrite": Verb(
        "dynamic_partition_overwrite",
        given(of([row(20), row(30)])),
        without((2, 5, 11), [row(20), row(30)]),
        {"rows_deleted": 3, "rows_appended": 2},
        nothing=(NO_ROWS,),
    ),
    "rewrite_data_files": Verb(
        "rewrite_data_files",
        given(),
        without(()),
        {"rows": len(LIVE), "rows_purged": 2},
        {"min_deleted": 0.0, "min_input_files": 2},
        merges="iceberg",
    ),
    "compact": Verb("compact", given(), without(()), {"vectors_written": 2}, merges="iceberg"),
    "transaction": Verb(
        "transaction",
        given("append", "upsert", "update", "delete_keys"),
        lambda rows: without((2, 4))(updated(without((), [*NEW, *UPSERTED])(rows))),
        {"rows_updated": 6, "rows_deleted": 4},
        nothing=(),
    ),
}
"""The arguments of a transaction are the names of its verbs."""

RIVAL = Verb("delete", given("id = 5"), without((5,)), {"rows_deleted": 1})
"""Another client's delete, of a row in a data file that each verb of `VERBS` changes that does not only append."""


# Workers ----------------------------------------------------------------------------------------------

WORKERS = ("threads", "executor", "spark")


@dataclass(frozen=True)
class Outcome:
    """The result of a verb, in one form for all.

    Attributes:
        commit: the snapshot id or the version; None if nothing was committed.
        repeated: whether the job was done before.
        attempts: of the commit.
        counts: each count of the result; of a transaction the sums.
        explanations: of each verb that searched rows.
    """

    commit: int | None
    repeated: bool
    attempts: int
    counts: Mapping[str, int]
    explanations: Sequence[Explanation]

    @classmethod
    def of(cls, committed: Any, results: Sequence[Any]) -> Outcome:
        counts: Counter[str] = Counter()
        for result in results:
            counts.update(dict(counts_of(result)))
        explanations = [getattr(result, "explanation", None) for result in results]
        one = getattr(committed, "commit", committed)  # a transaction has the commit of its format
        return cls(
            next(
                (found for name in ("id", "snapshot_id", "version") if (found := getattr(one, name, None))),
                None,
            ),
            getattr(one, "repeated", False),
            getattr(one, "attempts", 0),
            counts,
            [one for one in explanations if one is not None],
        )


def counts_of(result: Any) -> Iterator[tuple[str, int]]:
    """The counts of the result of one verb."""
    for one in dataclasses.fields(result):
        value = getattr(result, one.name)
        if isinstance(value, int) and one.name.partition("_")[0] in COUNTED:
            yield one.name, value


COUNTED = ("rows", "keys", "data", "vectors", "delete", "position", "positions", "deletes", "equality")
"""The first words of the names of counts."""


class Subject:
    """A table of a kind, on which a worker runs verbs.

    Args:
        table: of `tests.kit.kinds`.
        pool: the executor whose workers read data files; None for threads.
        session: the Spark session that runs the verbs.
    """

    def __init__(
        self, table: AnyTable, pool: Executor | None = None, session: SparkSession | None = None
    ) -> None:
        self.table, self.pool, self.session = table, pool, session
        self.worker = "spark" if session else "executor" if pool else "threads"

    def run(self, verb: Verb, **options: Any) -> Outcome:
        """Runs a verb with more options than it has."""
        workers = {"workers": self.pool} if self.pool else {}
        given = {**verb.options, **workers, **options}
        module = self.table.verbs if self.session is None else spark
        arguments = verb.arguments(self)
        if verb.function == "transaction":
            parts = [VERBS[name] for name in arguments]
            with module.transaction(self.table.table, **given) as tx:
                told = [getattr(tx, one.function)(*one.arguments(self), **one.options) for one in parts]
            if getattr(tx.committed, "attempts", 1) == 1:  # else the verbs ran again
                assert [dict(counts_of(one)) for one in told] == [dict(counts_of(one)) for one in tx.results]
            return Outcome.of(tx.committed, tx.results)
        function = getattr(module, verb.function)
        if self.session is None:
            done = function(self.table.table, *arguments, **given)
        elif arguments and isinstance(arguments[0], pa.Table):
            data = self.session.createDataFrame(arguments[0])
            done = function(data, self.table.table, *arguments[1:], **given)
        else:
            done = function(self.session, self.table.table, *arguments, **given)
        return Outcome.of(done, [done])

    def other(self) -> Subject:
        """The table as another client sees it, which has threads."""
        table = self.table
        own = (
            table.table
            if isinstance(table.table, Path)
            else table.table.catalog.load_table(table.table.name())
        )
        return Subject(
            type(table)(table.kind, own, has_row_ids=table.has_row_ids, is_partitioned=table.is_partitioned)
        )

    def rows(self, **options: Any) -> Rows:
        """The rows by their id, as this package reads them."""
        return {one["id"]: one for one in self.table.read(**options)}

    def data_files(self) -> dict[str, set[int]]:
        """The data files that have live rows, and the ids of these."""
        found: dict[str, set[int]] = {}
        for one in self.table.read("id", "_file"):
            found.setdefault(one["_file"], set()).add(one["id"])
        return found

    def properties(self, commit: int) -> Mapping[str, Any]:
        """What the history of the table says of a commit."""
        if isinstance(self.table.table, Path):
            return commit_of(self.table.table, commit)["commitInfo"][0]
        properties: Mapping[str, Any] = self.table.table.snapshot_by_id(commit).summary.additional_properties
        return properties

    def create_branch(self, name: str) -> None:
        """Creates a branch of an Iceberg table at its current snapshot."""
        table = self.table.table
        with v3_metadata(table.catalog):
            table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, name).commit()


# What cannot be done ----------------------------------------------------------------------------------


class Refusal(NamedTuple):
    """What a verb refuses.

    Attributes:
        functions: the names of verbs; empty for all.
        kinds: words of which a kind has one; empty for all.
        workers: their names; empty for all.
        option: of the verb; empty if it cannot be called at all.
        error: the type of the error.
        message: a regular expression.
    """

    functions: str
    kinds: str
    workers: str
    option: str
    error: type[Exception]
    message: str


NO_OPTION, NO_VERB = "unexpected keyword argument", "has no attribute"

CANNOT = (
    # functions, kinds, workers, option, error, message
    Refusal("compact", "delta", "threads executor", "", AttributeError, NO_VERB),
    Refusal("dynamic_partition_overwrite transaction", "", "spark", "", AttributeError, NO_VERB),
    Refusal("append compact", "", "", "on_conflict", TypeError, f"{NO_OPTION} 'on_conflict'"),
    Refusal("rewrite_data_files", "iceberg", "", "on_conflict", UnsupportedError, "Iceberg have no rewrite_data_files"),
    Refusal("compact", "delta", "spark", "", InvalidInputError, "it is a table of Delta"),
    Refusal("append delete_positions dynamic_partition_overwrite", "delta", "executor", "branch",
            TypeError, f"{NO_OPTION} 'workers'"),
    Refusal("rewrite_data_files", "delta", "", "branch", UnsupportedError, "tables of Delta have no branch"),
    Refusal("", "delta", "threads executor", "branch", UnsupportedError, "tables of Delta have no branch"),
    Refusal("", "delta", "spark", "branch", UnsupportedError, "a table of Delta has no branch"),
    Refusal("append delete_positions dynamic_partition_overwrite", "", "executor", "",
            TypeError, f"{NO_OPTION} 'workers'"),
    Refusal("compact", "2", "", "", UnsupportedError, "format version 2, expected 3 or later"),
    Refusal("dynamic_partition_overwrite", "2 3 plain mapped", "", "", InvalidInputError,
            "expected a partitioned table, found none"),
)  # fmt: skip
"""The first one that fits is what the verb raises."""


def has_word(words: str, found: Sequence[str]) -> bool:
    """Whether one of some words was found."""
    return not {*words.split()}.isdisjoint(found)


def refusal(subject: Subject, verb: Verb, *options: str) -> Refusal | None:
    """What a verb refuses with some options; None if it can be done."""
    for one in CANNOT:
        found = (
            (one.functions, [verb.function]),
            (one.kinds, subject.table.kind.split()),
            (one.workers, [subject.worker]),
            (one.option, options),
        )
        if all(not words or has_word(words, there) for words, there in found):
            return one
    return None
