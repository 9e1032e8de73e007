"""Unusual and damaged Delta tables: read by the rules of the protocol, or refused by all functions."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import PositionBitmap, delta, dv, errors
from tests.delta.tables import alter, commit_of, files_of, ids, state
from tests.mounts import may_mount, run_read_only

ROOT = Path(__file__).parents[3]
Golden = Callable[[str], Path]


# Descriptors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", [b"", b"\1"], ids=["first byte", "after the version"])
@pytest.mark.parametrize("place", ["path", "uri"])
def test_an_absolute_vector_without_offset_is_found(head: bytes, place: str, golden: Golden) -> None:
    """Spark takes a missing offset for 0, delta-kernel-rs for 1."""
    table = golden("hand_inline")
    file = table.parent / "a folder" / f"deletion_vector_{uuid.uuid4()}.bin"
    file.parent.mkdir()
    record = dv.delta.encode(PositionBitmap.from_positions([0, 7, 999]))
    file.write_bytes(head + record)
    descriptor = {
        "storageType": "p",
        "pathOrInlineDv": file.as_uri() if place == "uri" else str(file),
        "sizeInBytes": len(record) - 8,
        "cardinality": 3,
    }
    alter(table, "add", lambda add: add.update(deletionVector=descriptor), 2)
    assert ids(table) == [i for i in range(1000) if i not in (0, 7, 999)]
    assert delta.verify(table) == []
    file.write_bytes(b"\1\1" + record)
    with pytest.raises(errors.CorruptDataError, match="without offset") as caught:
        ids(table)
    assert (caught.value.path, caught.value.offset) == (str(file), 0)


@pytest.mark.parametrize("name", ["hand_inline", "hand_prefix", "hand_native"])
def test_new_vectors_are_portable_and_removes_have_the_old_descriptor(name: str, golden: Golden) -> None:
    table = golden(name)
    (old,) = commit_of(table, 2)["add"]
    before = files_of(table)
    delta.delete(table, "id < 15")
    actions = commit_of(table, 3)
    (new,) = [path for path in files_of(table) - before if path.suffix == ".bin"]
    descriptor = actions["add"][0]["deletionVector"]
    data = new.read_bytes()
    assert data[0] == 1
    assert data[descriptor["offset"] + 4 :][:4] == bytes.fromhex("d1d33964")
    assert actions["remove"][0]["deletionVector"] == old["deletionVector"]
    assert ("offset" in old["deletionVector"]) == (name != "hand_inline")


# Replay ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", ["none", "another"])
def test_a_remove_is_about_one_vector_of_a_file(vector: str, golden: Golden) -> None:
    """The key of a file is its path and the unique id of its vector: a remove of another key removes nothing."""
    table = golden("spark_partitioned")
    before = ids(table)
    (remove,) = [r for r in commit_of(table, 3)["remove"] if r["path"].startswith("part=p%200")][:1]
    if vector == "none":
        remove.pop("deletionVector")
    log = table / "_delta_log" / f"{4:020d}.json"
    log.write_text(json.dumps({"remove": remove}) + "\n")
    assert ids(table) == before
    (add,) = [a for a in commit_of(table, 3)["add"] if a["path"] == remove["path"]]
    log.write_text(json.dumps({"remove": remove | {"deletionVector": add["deletionVector"]}}) + "\n")
    assert ids(table) == [i for i in before if i % 3]


@pytest.mark.parametrize("kind", ["protocol", "metaData"])
def test_a_checkpoint_that_lacks_an_action_is_refused(kind: str, golden: Golden) -> None:
    table = golden("spark_v1_checkpoint")
    file = table / "_delta_log" / f"{2:020d}.checkpoint.parquet"
    rows = pq.read_table(file)
    pq.write_table(rows.filter(rows[kind].is_null()), file)
    with pytest.raises(errors.CorruptDataError, match=f"{kind} of version 3: expected one, found none"):
        delta.snapshot(table)


# Commits -----------------------------------------------------------------------------------------------------


def test_commit_timestamps_ascend_where_the_clock_does_not(golden: Golden) -> None:
    table = golden("spark_many_features")
    future = 1 << 43
    alter(table, "commitInfo", lambda info: info.update(inCommitTimestamp=future), 3)
    delta.delete(table, "id < 10")
    (info,) = commit_of(table, 4)["commitInfo"]
    assert (info["inCommitTimestamp"], info["timestamp"]) == (future + 1, future + 1)


def test_a_delete_writes_no_change_data(golden: Golden) -> None:
    table = golden("spark_many_features")
    assert delta.snapshot(table).configuration["delta.enableChangeDataFeed"] == "true"
    delta.delete(table, "id < 30")
    delta.delete(table, "part = 'p 1'")
    assert not (table / "_change_data").exists()
    assert "cdc" not in commit_of(table, 4).keys() | commit_of(table, 5).keys()


def test_a_delete_passes_over_what_only_writers_of_rows_check(golden: Golden) -> None:
    table = golden("spark_partitioned")

    def edit(action: dict[str, Any]) -> None:
        action["configuration"]["delta.constraints.c"] = "id > 0"
        schema = json.loads(action["schemaString"])
        schema["fields"][1]["metadata"] = {"delta.generationExpression": "'x'"}
        action["schemaString"] = json.dumps(schema)

    alter(table, "metaData", edit)
    features = ["generatedColumns", "checkConstraints", "identityColumns", "clustering"]
    alter(table, "protocol", lambda p: p["writerFeatures"].extend(features))
    before = ids(table)
    delta.delete(table, "id < 30")
    assert ids(table) == [i for i in before if i >= 30]
    kinds = commit_of(table, 4).keys()
    assert kinds == {"commitInfo", "add", "remove"}


# Damage ------------------------------------------------------------------------------------------------------


def torn_vector(table: Path) -> None:
    for file in table.glob("*.bin"):
        file.write_bytes(file.read_bytes()[:40])


def altered_vector(table: Path) -> None:
    for file in table.glob("*.bin"):
        data = bytearray(file.read_bytes())
        data[30] ^= 1
        file.write_bytes(data)


def wrong_z85(table: Path) -> None:
    alter(table, "add", lambda add: add["deletionVector"].update(pathOrInlineDv='"' * 20), 3)


def position_beyond(table: Path) -> None:
    text, size = dv.delta.encode_inline(PositionBitmap.from_positions([5, (1 << 32) + 3]))
    inline = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": 2}
    alter(table, "add", lambda add: add.update(deletionVector=inline), 3)


def position_beyond_in_a_file(table: Path) -> None:
    name = uuid.uuid4()
    record = dv.delta.encode(PositionBitmap.from_positions([5, 100]))
    (table / f"deletion_vector_{name}.bin").write_bytes(b"\1" + record)
    descriptor = {
        "storageType": "u",
        "pathOrInlineDv": dv.delta.z85_encode(name.bytes),
        "offset": 1,
        "sizeInBytes": len(record) - 8,
        "cardinality": 2,
    }
    alter(table, "add", lambda add: add.update(deletionVector=descriptor), 3)


def gap(table: Path) -> None:
    (table / "_delta_log" / f"{2:020d}.json").unlink()


def no_commit(table: Path) -> None:
    (table / "_delta_log" / f"{3:020d}.json").write_bytes(b"\0\0\0")


def torn_checkpoint(table: Path) -> None:
    file = table / "_delta_log" / f"{2:020d}.checkpoint.parquet"
    file.write_bytes(file.read_bytes()[:-20])


def no_sidecar(table: Path) -> None:
    for file in (table / "_delta_log" / "_sidecars").iterdir():
        file.unlink()


def future_protocol(table: Path) -> None:
    alter(table, "protocol", lambda p: p.update(minReaderVersion=4), 0)


def without_removes(table: Path, version: int, spelling: Callable[[str], str] = str) -> None:
    """Leaves out the removes of a delete: the files are live with their old vector and with the new one."""
    file = table / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = spelling(action["add"]["path"])
    kept = [json.dumps(action) for action in actions if "remove" not in action]
    file.write_text("\n".join(kept) + "\n")


def live_with_two_vectors(table: Path) -> None:
    without_removes(table, 3)


def live_with_and_without_a_vector(table: Path) -> None:
    without_removes(table, 2)


def live_in_two_spellings(table: Path) -> None:
    without_removes(table, 3, lambda path: path.replace("part=", "p%61rt="))


def live_under_an_absolute_path(table: Path) -> None:
    without_removes(table, 3, lambda path: f"file://{table}/{path}")


def live_twice_in_a_checkpoint(table: Path) -> None:
    file = table / "_delta_log" / f"{2:020d}.checkpoint.parquet"
    rows = pq.read_table(file)
    untouched = rows.filter(pa.array(["part=p%201" in str(add) for add in rows["add"].to_pylist()]))
    pq.write_table(pa.concat_tables([rows, untouched]), file)


CORRUPT, GONE, UNSUPPORTED = errors.CorruptDataError, errors.NotFoundError, errors.UnsupportedError
DAMAGES: dict[Callable[[Path], None], tuple[str, type[errors.PuffinFastError], str]] = {
    torn_vector: ("spark_partitioned", CORRUPT, "deletion_vector_"),
    altered_vector: ("spark_partitioned", CORRUPT, "deletion_vector_"),
    wrong_z85: ("spark_partitioned", CORRUPT, "part=p 0"),
    position_beyond: ("spark_partitioned", CORRUPT, "part=p 0"),
    position_beyond_in_a_file: ("spark_partitioned", CORRUPT, "part=p 0"),
    live_with_two_vectors: ("spark_partitioned", CORRUPT, "found 2, of version 2 "),
    live_with_and_without_a_vector: ("spark_partitioned", CORRUPT, "version 1 (no deletion vector)"),
    live_in_two_spellings: ("spark_partitioned", CORRUPT, "part=p "),
    live_under_an_absolute_path: ("spark_partitioned", CORRUPT, "part=p "),
    live_twice_in_a_checkpoint: ("spark_v1_checkpoint", CORRUPT, "found 2, of version 2"),
    gap: ("spark_partitioned", CORRUPT, "_delta_log"),
    no_commit: ("spark_partitioned", CORRUPT, f"{3:020d}.json"),
    torn_checkpoint: ("spark_v1_checkpoint", CORRUPT, f"{2:020d}.checkpoint.parquet"),
    no_sidecar: ("spark_v2_checkpoint", GONE, "_sidecars"),
    future_protocol: ("spark_partitioned", UNSUPPORTED, "reader version 4"),
}
ROWS = pa.table({"id": [3, 5000], "v": ["x", "y"], "part": ["p 0", "p 0"]})
VERBS: dict[str, Callable[[Path], object]] = {
    "scan": lambda table: delta.scan(table).to_arrow(),
    "vectors": delta.vectors,
    "delete": lambda table: delta.delete(table, "id < 150 and v != 'v6'"),
    "delete_keys": lambda table: delta.delete_keys(table, ROWS, "id"),
    "delete_positions": lambda table: delta.delete_positions(
        table,
        pa.table(
            {
                "file_path": [
                    f"{table}/{path.relative_to(table)}" for path in table.glob("part=p 0/*.parquet")
                ],
                "pos": [8],
            }
        ),
    ),
    "update": lambda table: delta.update(table, "id < 150", {"v": "new"}),
    "upsert": lambda table: delta.upsert(table, ROWS, "id"),
    "purge": lambda table: delta.purge(table, min_deleted=1e-9),
    "to_iceberg": lambda table: to_iceberg(table),
}
ON_THE_LOG: dict[str, Callable[[Path], object]] = {
    "snapshot": delta.snapshot,
    "verify": delta.verify,
    "enable": delta.enable,
    "orphan_files": delta.orphan_files,
}


def to_iceberg(table: Path) -> None:
    catalog = SqlCatalog("c", uri="sqlite://", warehouse=f"file://{table.parent}/iceberg")
    catalog.create_namespace("n")
    try:
        delta.to_iceberg(table, catalog, "n.t")
    except errors.PuffinFastError:
        assert catalog.list_tables("n") == []
        raise
    finally:
        catalog.engine.dispose()


IN_VECTORS = (
    torn_vector,
    altered_vector,
    wrong_z85,
    position_beyond,
    position_beyond_in_a_file,
    live_with_two_vectors,
    live_with_and_without_a_vector,
    live_in_two_spellings,
    live_under_an_absolute_path,
    live_twice_in_a_checkpoint,
)


@pytest.mark.parametrize(
    ("damage", "verb"),
    [
        (damage, verb)
        for damage in DAMAGES
        for verb in (*VERBS, *(() if damage in IN_VECTORS else ON_THE_LOG))
    ],
    ids=lambda item: item if isinstance(item, str) else item.__name__,
)
def test_damage_is_refused_by_its_place_and_nothing_changes(
    damage: Callable[[Path], None], verb: str, golden: Golden
) -> None:
    name, kind, where = DAMAGES[damage]
    table = golden(name)
    damage(table)
    before = state(table)
    with pytest.raises(kind, match=re.escape(where)) as caught:
        (VERBS | ON_THE_LOG)[verb](table)
    if isinstance(caught.value, errors.CorruptDataError) and damage is not torn_checkpoint:  # PyArrow's words
        assert None not in (caught.value.path, caught.value.expected, caught.value.found)
    assert state(table) == before


@pytest.mark.parametrize("damage", IN_VECTORS, ids=lambda damage: damage.__name__)
def test_verify_finds_damaged_vectors(damage: Callable[[Path], None], golden: Golden) -> None:
    table = golden(DAMAGES[damage][0])
    damage(table)
    before = state(table)
    found = delta.verify(table)
    assert found != []
    assert all(problem.data_file.startswith(str(table)) for problem in found)
    assert state(table) == before


READ_ONLY = """
import sys
from pathlib import Path
from puffin_fast import errors
from tests.delta.log.test_damage import VERBS, ids
table = Path(sys.argv[1])
before = ids(table)
for name, verb in VERBS.items():
    try:
        verb(table)
        print("done", name)
    except errors.PuffinFastError as error:
        print("refused", name, "Read-only" in str(error) and str(table) in str(error))
assert ids(table) == before
"""


@pytest.mark.skipif(not may_mount(), reason="needs unshare and user namespaces to mount a folder read-only")
def test_a_table_on_read_only_storage_is_read_and_writes_are_refused(golden: Golden) -> None:
    table = golden("spark_partitioned")
    before = state(table)
    reads = ("scan", "vectors", "to_iceberg")
    assert run_read_only(table, READ_ONLY, table) == [
        f"done {name}" if name in reads else f"refused {name} True" for name in VERBS
    ]
    assert state(table) == before
