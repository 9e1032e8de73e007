"""Changes of single commits: each kind of change, filters, columns, memory, and what is refused."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.rows.changes import copies
from puffin_fast.rows.changes.lines import WORDS
from puffin_fast.rows.files import reader
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.splits import Split
from tests.iceberg.conftest import add_branch, current_snapshot
from tests.iceberg.maintenance.delete_files import delete_by_file
from tests.kit.changes import lines_of
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table, path_of
from tests.rows.deletes.equality_deletes import FIELDS, delete_equal

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("l", pa.list_(pa.float64())),
        ("m", pa.struct([("a", pa.int32())])),
    ]
)


def rows(ids: list[int], s: str = "a") -> pa.Table:
    lists, structs = [[float(id), float("nan")] for id in ids], [{"a": id} if id % 2 else None for id in ids]
    return pa.table([ids, [s] * len(ids), lists, structs], schema=SCHEMA)


def head(table: Table) -> int:
    return current_snapshot(table).snapshot_id


def short(changes: Any) -> list[tuple[Any, ...]]:
    """The lines as letter, id and text, ordered."""
    found = changes.to_arrow().to_pylist()
    letters = dict(zip(WORDS, "diuU", strict=True))
    return sorted(
        (row["_change_ordinal"], row["id"], letters[row["_change_type"]], row["s"]) for row in found
    )


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """Ids 1 to 4, then 5 to 8, in two files."""
    return iceberg_table(racing, [rows([1, 2, 3, 4]), rows([5, 6, 7, 8])])


@pytest.fixture
def table2(racing: RacingCatalog) -> Table:
    """The same, of format version 2."""
    return iceberg_table(
        racing, [rows([1, 2, 3, 4]), rows([5, 6, 7, 8])], name="n.v2", version=2, by="pyiceberg"
    )


def test_each_verb_yields_its_lines(table: Table) -> None:
    start = head(table)
    iceberg.delete(table, "id = 1")
    iceberg.update(table, "id = 2", {"s": "b"})
    iceberg.upsert(table, rows([3, 9], "c"), ["id"])
    iceberg.overwrite(table, rows([10]), "id >= 5 and id <= 8")
    iceberg.rewrite_data_files(table, min_deleted=0)
    found = iceberg.changes(table, start)
    assert short(found) == [
        (0, 1, "d", "a"),
        (1, 2, "U", "b"),
        (1, 2, "u", "a"),
        (2, 3, "U", "c"),
        (2, 3, "u", "a"),
        (2, 9, "i", "c"),
        *((3, id, "d", "a") for id in (5, 6, 7, 8)),
        (3, 10, "i", "a"),
    ]
    assert found.count() == 11
    net = [(0, 1, "d", "a"), (0, 2, "U", "b"), (0, 2, "u", "a"), (0, 3, "U", "c"), (0, 3, "u", "a")]
    net += [*((0, id, "d", "a") for id in (5, 6, 7, 8)), (0, 9, "i", "c"), (0, 10, "i", "a")]
    assert short(iceberg.changes(table, start, net=True)) == sorted(net)
    assert short(iceberg.changes(table, head(table), start, net=True)) == sorted(
        (at, id, {"u": "U", "U": "u", "i": "d", "d": "i"}[kind], s) for at, id, kind, s in net
    )


def test_images_of_an_update_follow_each_other(table: Table) -> None:
    start = head(table)
    iceberg.update(table, "id >= 3 and id <= 6", {"s": "b"})
    found = iceberg.changes(table, start).to_arrow()
    assert found["_change_type"].to_pylist() == ["update_preimage", "update_postimage"] * 4
    ids = found["id"].to_pylist()
    assert ids[::2] == ids[1::2]
    assert found["_commit_snapshot_id"].to_pylist() == [head(table)] * 8
    apart = iceberg.changes(table, start, updates=False).to_arrow()
    assert sorted(apart["_change_type"].to_pylist()) == ["delete"] * 4 + ["insert"] * 4


def test_a_rollback_brings_rows_back(racing: RacingCatalog, table: Table) -> None:
    start = head(table)
    iceberg.delete(table, "id in (1, 6)")
    gone = head(table)
    with v3_metadata(racing):
        table.manage_snapshots().set_current_snapshot(start).commit()
    assert iceberg.changes(table, start).count() == 0
    assert short(iceberg.changes(table, gone, start, net=True)) == [(0, 1, "i", "a"), (0, 6, "i", "a")]
    with pytest.raises(InvalidInputError, match=r"expected an ancestor of snapshot \d+; with net=True"):
        iceberg.changes(table, gone)


def test_lines_are_those_that_the_filter_and_the_columns_show(table: Table) -> None:
    start = head(table)
    iceberg.update(table, "id = 2", {"s": "b"})
    iceberg.update(table, "id = 3", {"l": [0.0]})
    iceberg.update(table, "id = 4", {"s": "a"})  # changes nothing
    two, three = [(0, 2, "U", "b"), (0, 2, "u", "a")], [(1, 3, "U", "a"), (1, 3, "u", "a")]
    assert short(iceberg.changes(table, start)) == two + three
    assert short(iceberg.changes(table, start, row_filter="s = 'a'")) == [(0, 2, "d", "a"), *three]
    assert short(iceberg.changes(table, start, row_filter="s = 'b'")) == [(0, 2, "i", "b")]
    assert iceberg.changes(table, start, row_filter="s = 'b'").count() == 1
    for n_lines, columns in (
        (0, "id m"),
        (2, "id l"),
        (0, "id m _row_id _pos _file"),
        (2, "id s _file _pos"),
    ):
        assert iceberg.changes(table, start, selected_fields=columns.split()).count() == n_lines
    found = iceberg.changes(table, start, selected_fields=("s", "_row_id", "_pos", "_file")).to_arrow()
    assert found.column_names[-3:] == ["_row_id", "_pos", "_file"]
    assert found["_row_id"].to_pylist() == [1, 1]
    assert found["_pos"].to_pylist() == [1, 0]
    assert found["_file"][0].as_py() != found["_file"][1].as_py()


@pytest.mark.parametrize("fields", [(), ("_pos",)])
def test_rows_of_which_nothing_is_shown_cancel(table2: Table, fields: tuple[str, ...]) -> None:
    start = head(table2)
    table2.delete("id = 1")
    table2.overwrite(rows([9]), "id >= 7")
    found = iceberg.changes(table2, start, selected_fields=fields, net=True)
    assert found.to_arrow()["_change_type"].to_pylist() == ["delete"] * 2
    assert found.count() == 2


def test_copies_of_copy_on_write_commits_are_no_lines(table2: Table) -> None:
    start = head(table2)
    table2.delete("id = 2")
    table2.overwrite(rows([7, 8, 8], "b"), "id >= 7")
    assert short(iceberg.changes(table2, start, net=True)) == [
        (0, 2, "d", "a"),
        (0, 7, "d", "a"),
        (0, 7, "i", "b"),
        (0, 8, "d", "a"),
        (0, 8, "i", "b"),
        (0, 8, "i", "b"),
    ]
    keyed = iceberg.changes(table2, start, net=True, join_cols="id")
    assert [line[1:3] for line in short(keyed)] == [
        (2, "d"), (7, "U"), (7, "u"), (8, "U"), (8, "i"), (8, "u"),
    ]  # fmt: skip
    assert (
        sum(iceberg.changes(table2, *ends).count() for ends in zip(*chain(table2, start), strict=True)) == 6
    )


def test_row_ids_of_an_upgraded_table_pair_updates_in_both_directions(table2: Table) -> None:
    start = head(table2)
    iceberg.upgrade(table2)
    iceberg.delete(table2, "id = 1")  # gives the data files row ids
    iceberg.update(table2, "id = 2", {"s": "b"})
    assert short(iceberg.changes(table2, start, net=True)) == [
        (0, 1, "d", "a"),
        (0, 2, "U", "b"),
        (0, 2, "u", "a"),
    ]
    assert short(iceberg.changes(table2, head(table2), start, net=True)) == [
        (0, 1, "i", "a"),
        (0, 2, "U", "a"),
        (0, 2, "u", "b"),
    ]


def chain(table: Table, start: int) -> tuple[list[int], list[int]]:
    """The snapshots from one on, and their successors."""
    ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    ids = ids[ids.index(start) :]
    return ids[:-1], ids[1:]


def test_copied_rows_are_found_by_their_lineage_before_they_are_read(table: Table) -> None:
    start = head(table)
    iceberg.update(table, "id = 2", {"s": "b"})
    iceberg.update(table, "id = 3", {"s": "a"})
    iceberg.delete(table, "id = 1")
    iceberg.rewrite_data_files(table, min_deleted=0)
    found = iceberg.changes(table, start, net=True)
    (commit,) = found.plan
    assert all(None in (file.before, file.after) for file in commit.files)
    reader = found.change_reader()
    left, n_live = reader.changed_rows(commit), reader.plain().n_live
    assert [sum(map(n_live, side)) for side in (left.deleted, left.inserted)] == [3, 2]  # ids 1 to 3, 2 and 3
    assert short(found) == [(0, 1, "d", "a"), (0, 2, "U", "b"), (0, 2, "u", "a")]
    assert short(iceberg.changes(table, start, net=True, row_filter="s = 'a'")) == [
        (0, 1, "d", "a"),
        (0, 2, "d", "a"),
    ]


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("is_stored", [True, False])
def test_rows_are_read_once_to_find_copies_and_not_at_all_if_row_ids_follow_from_positions(
    table: Table, monkeypatch: pytest.MonkeyPatch, is_held: bool, is_stored: bool
) -> None:
    if is_stored:
        iceberg.delete(table, "id = 8")
        iceberg.rewrite_data_files(table, min_deleted=0)
    start = head(table)
    iceberg.update(table, "id = 6", {"s": "b"})
    iceberg.delete(table, "id = 5")
    iceberg.rewrite_data_files(table, min_deleted=0)
    found = iceberg.changes(table, start, net=True)
    (commit,) = found.plan
    opened: Counter[str] = Counter()
    real = FileReader._part

    def part(self: FileReader, split: Split, *given: Any) -> Any:
        opened.update([split.task.data.file_path])
        return real(self, split, *given)

    monkeypatch.setattr(FileReader, "_part", part)
    if not is_held:
        monkeypatch.setattr(copies, "HELD_BYTES", 0)
    reader = found.change_reader()
    left, n_live = reader.changed_rows(commit), reader.plain().n_live
    assert [sum(map(n_live, side)) for side in (left.deleted, left.inserted)] == [2, 1]
    if not is_stored:
        assert set(opened) == {file.after.data.file_path for file in commit.files if file.after is not None}
    assert max(opened.values()) == (2 if is_stored and not is_held else 1)
    assert short(found) == [(0, 5, "d", "a"), (0, 6, "U", "b"), (0, 6, "u", "a")]


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("limit", [None, "300"])
def test_a_data_file_of_which_several_commits_chose_rows_is_read_once(
    table: Table, monkeypatch: pytest.MonkeyPatch, limit: str | None, filtered: bool
) -> None:
    start = head(table)
    iceberg.delete(table, "id in (1, 5)")
    iceberg.update(table, "id = 2", {"s": "b"})
    iceberg.append(table, rows([9, 10, 11]))
    iceberg.delete(table, "id in (3, 9)")
    iceberg.update(table, "id = 10", {"s": "c"})
    if limit is not None:
        table.io.properties["puffin-fast.limit.key-bytes"] = limit
    options: dict[str, Any] = {"row_filter": "id > 1 and s = 'a'"} if filtered else {}
    ids = [start, *(one.snapshot_id for one in table.metadata.snapshots[2:])]
    apart = [short(iceberg.changes(table, *ends, **options)) for ends in pairwise(ids)]
    opened: Counter[str] = Counter()
    real = reader.open_format
    monkeypatch.setattr(reader, "open_format", lambda io, e: (opened.update([e.file_path]), real(io, e))[1])
    found = iceberg.changes(table, start, **options)
    assert short(found) == [(at, *line) for at, lines in enumerate(apart) for _, *line in lines]
    assert len(opened) == 5
    assert (max(opened.values()) == 1) == (limit is None)
    assert found.count() == sum(map(len, apart))


def test_position_delete_files_of_several_data_files_and_twice_deleted_rows(table2: Table) -> None:
    start = head(table2)
    paths = sorted(
        (task.data.file_path for task in iceberg.plan_files(table2).tasks), key=lambda path: "00000-0" in path
    )
    delete_by_file(table2, [(paths[0], 0), (paths[1], 1)])
    delete_by_file(table2, [(paths[0], 0), (paths[0], 2), ("file:///nowhere", 1)])
    counts = [iceberg.changes(table2, *ends).count() for ends in zip(*chain(table2, start), strict=True)]
    assert counts == [2, 1]
    assert iceberg.changes(table2, start, net=True).count() == 3
    middle = head(table2)
    iceberg.upgrade(table2)
    iceberg.convert_position_deletes(table2)
    assert iceberg.changes(table2, middle).count() == 0
    assert iceberg.changes(table2, middle, net=True).count() == 0
    assert iceberg.changes(table2, net=True).count() == 5


def test_rows_of_other_schemas_have_the_columns_of_now(racing: RacingCatalog, table: Table) -> None:
    start = head(table)
    iceberg.delete(table, "id = 1")
    with v3_metadata(racing), table.update_schema() as update:
        update.add_column("new", LongType())
        update.rename_column("s", "text")
        update.delete_column("l")
    iceberg.update(table, "id = 2", {"new": 5})
    found = iceberg.changes(table, start).to_arrow()
    assert found.select(["id", "text", "new", "_change_type"]).to_pylist() == [
        {"id": 1, "text": "a", "new": None, "_change_type": "delete"},
        {"id": 2, "text": "a", "new": None, "_change_type": "update_preimage"},
        {"id": 2, "text": "a", "new": 5, "_change_type": "update_postimage"},
    ]


def test_more_rows_than_memory_is_for_give_the_same_lines(table2: Table) -> None:
    table2.overwrite(rows([*range(2, 300)], "b"), "id > 1")
    start = table2.metadata.snapshots[1].snapshot_id
    for options in ({}, {"join_cols": ["id"]}):
        whole = lines_of(iceberg.changes(table2, start, net=True, **options))
        table2.io.properties["puffin-fast.limit.key-bytes"] = "3000"
        assert lines_of(iceberg.changes(table2, start, net=True, **options)) == whole
        assert whole.total() == 7 + 298
        del table2.io.properties["puffin-fast.limit.key-bytes"]


def test_times_select_snapshots_of_the_history(table: Table) -> None:
    first, second = table.metadata.snapshots
    assert iceberg.changes(table, from_timestamp_exclusive=first.timestamp_ms).count() == 4
    assert iceberg.changes(table, to_timestamp_inclusive=second.timestamp_ms - 1).count() == 4
    assert iceberg.changes(table, to_timestamp_inclusive=first.timestamp_ms - 1).count() == 0
    assert iceberg.changes(table, from_timestamp_exclusive=first.timestamp_ms - 1).count() == 8


def test_branches_are_compared(racing: RacingCatalog, table: Table) -> None:
    add_branch(table, "audit")
    iceberg.delete(table, "id = 1", branch="audit")
    iceberg.delete(table, "id = 2")
    assert short(iceberg.changes(table, head(table), branch="audit", net=True)) == [
        (0, 1, "d", "a"),
        (0, 2, "i", "a"),
    ]
    assert iceberg.changes(table, branch="audit").count() == 9


def test_expired_snapshots_are_named(table: Table) -> None:
    first = head(table)
    iceberg.delete(table, "id = 1")
    second = head(table)
    iceberg.delete(table, "id = 2")
    iceberg.expire_snapshots(table, snapshot_ids=[second])
    with pytest.raises(
        NotFoundError, match=f"parent of snapshot {head(table)} has expired; changes can begin after"
    ):
        iceberg.changes(table, first)
    with pytest.raises(NotFoundError, match=f"no snapshot {second}: it has expired"):
        iceberg.changes(table, second)
    with pytest.raises(NotFoundError, match="has expired"):
        iceberg.changes(table)
    assert short(iceberg.changes(table, first, net=True)) == [(0, 1, "d", "a"), (0, 2, "d", "a")]


def test_a_missing_data_file_is_named(table: Table) -> None:
    start = head(table)
    (path,) = (t.data.file_path for t in iceberg.plan_files(table, row_filter="id = 1").tasks)
    iceberg.delete(table, "id <= 4")
    path_of(path).unlink()
    assert iceberg.changes(table, start).count() == 4
    needed = f"{Path(path).name}.* the changes of {head(table)} need it, and a clean-up of older states"
    with pytest.raises(NotFoundError, match=needed):
        iceberg.changes(table, start).to_arrow()
    with pytest.raises(NotFoundError, match=needed):
        iceberg.changes(table, start, row_filter="id = 1").count()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"from_snapshot_id_exclusive": 7}, NotFoundError, "no snapshot 7"),
        ({"to_snapshot_id_inclusive": 7}, NotFoundError, "no snapshot 7.*the oldest snapshot that remains"),
        ({"branch": "nowhere"}, NotFoundError, "nowhere"),
        ({"selected_fields": ("nothing",)}, NotFoundError, "nothing"),
        ({"row_filter": "nothing = 1"}, NotFoundError, "nothing"),
        ({"join_cols": ["nothing"]}, NotFoundError, "no column nothing"),
        ({"join_cols": ["l"]}, InvalidInputError, "expected a primitive type"),
        ({"net": "yes"}, InvalidInputError, "net"),
        ({"threads": 0}, InvalidInputError, "threads"),
        ({"to_snapshot_id_inclusive": 1, "to_timestamp_inclusive": 1}, InvalidInputError, "found both"),
        ({"from_snapshot_id_exclusive": 1, "from_timestamp_exclusive": 1}, InvalidInputError, "found both"),
        ({"from_timestamp_exclusive": "yesterday"}, InvalidInputError, "ISO 8601"),
    ],
)
def test_bad_input_is_refused(
    table: Table, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        iceberg.changes(table, **given)


def test_equality_deletes_of_a_dropped_column_and_of_no_column(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = iceberg.create_table(racing, "n.e", pa.schema([("id", pa.int64()), ("k", pa.int32())]))
    iceberg.append(made, pa.table({"id": [1, 2], "k": [1, 2]}))
    start = head(made)
    delete_equal(made, [2], [(2,)])
    deleted = head(made)
    with v3_metadata(racing), made.update_schema() as update:
        update.delete_column("k")
    assert iceberg.changes(made, start).to_arrow().select(["id", "_change_type"]).to_pylist() == [
        {"id": 2, "_change_type": "delete"}
    ]
    monkeypatch.setitem(FIELDS, 99, NestedField(99, "ghost", LongType()))
    delete_equal(made, [99], [(2,)])
    for changes in (iceberg.changes(made, deleted), iceberg.changes(made, start, net=True)):
        for verb in (changes.to_arrow, changes.count):
            with pytest.raises(CorruptDataError, match="a field of one of the table's schemas, found 99"):
                verb()


def test_case_is_ignored_when_asked(table2: Table) -> None:
    start = head(table2)
    table2.overwrite(rows([7], "b"), "id = 7")
    given = {"selected_fields": ["S", "ID"], "row_filter": "ID = 7", "join_cols": "Id", "net": True}
    found = iceberg.changes(table2, start, case_sensitive=False, **given).to_arrow()  # type: ignore[arg-type]
    assert found.select([1, 0, 2]).to_pylist() == [
        {"id": 7, "s": "a", "_change_type": "update_preimage"},
        {"id": 7, "s": "b", "_change_type": "update_postimage"},
    ]
    with pytest.raises(NotFoundError, match="no column Id"):
        iceberg.changes(table2, start, join_cols="Id")
    with pytest.raises(InvalidInputError, match="expected distinct columns, found id, ID"):
        iceberg.changes(table2, start, join_cols=["id", "ID"], case_sensitive=False)


def test_a_column_of_the_name_of_one_of_changes_is_refused(racing: RacingCatalog) -> None:
    made = iceberg.create_table(racing, "n.c", pa.schema([("_change_type", pa.string())]))
    with pytest.raises(InvalidInputError, match="column _change_type"):
        iceberg.changes(made)


def test_equal_ends_and_empty_tables_have_no_lines(racing: RacingCatalog, table: Table) -> None:
    assert iceberg.changes(table, head(table)).to_arrow().num_rows == 0
    assert iceberg.changes(table, head(table), net=True).count() == 0
    empty = iceberg.create_table(racing, "n.e", SCHEMA)
    for net in (False, True):
        found = iceberg.changes(empty, net=net)
        assert found.count() == 0
        assert found.to_arrow().schema == found.schema
