"""Damaged Delta tables: all functions refuse them, name the place and change nothing; and what is odd, but allowed."""

from __future__ import annotations

import json
import re
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import PositionBitmap, delta, dv, errors
from puffin_fast.delta.log.segment import commit_path
from tests.delta.tables import (
    Golden,
    alter,
    alter_fields,
    commit_of,
    configure,
    ids,
    lines_of,
    refused,
    unchanged,
    write_lines,
)
from tests.kit.mounts import may_mount, run_read_only
from tests.kit.tables import sqlite_catalog

# Replay and commits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", ["none", "another"])
def test_a_remove_is_about_one_vector_of_a_file(vector: str, partitioned: Path) -> None:
    """The key of a file is its path and the unique id of its vector: a remove of another key removes nothing."""
    before = ids(partitioned)
    (remove,) = [r for r in commit_of(partitioned, 3)["remove"] if r["path"].startswith("part=p%200")][:1]
    if vector == "none":
        remove.pop("deletionVector")
    log = partitioned / "_delta_log" / f"{4:020d}.json"
    log.write_text(json.dumps({"remove": remove}) + "\n")
    assert ids(partitioned) == before
    (add,) = [a for a in commit_of(partitioned, 3)["add"] if a["path"] == remove["path"]]
    log.write_text(json.dumps({"remove": remove | {"deletionVector": add["deletionVector"]}}) + "\n")
    assert ids(partitioned) == [i for i in before if i % 3]


@pytest.mark.parametrize("kind", ["protocol", "metaData"])
def test_a_checkpoint_that_lacks_an_action_is_refused(kind: str, golden: Golden) -> None:
    table = golden("spark_v1_checkpoint")
    file = table / "_delta_log" / f"{2:020d}.checkpoint.parquet"
    rows = pq.read_table(file)
    pq.write_table(rows.filter(rows[kind].is_null()), file)
    with pytest.raises(errors.CorruptDataError, match=f"{kind} of version 3: expected one, found none"):
        delta.snapshot(table)


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


def test_a_delete_passes_over_what_only_writers_of_rows_check(partitioned: Path) -> None:
    configure(partitioned, **{"constraints.c": "id > 0"})
    generated = {"delta.generationExpression": "'x'"}
    alter_fields(partitioned, lambda fields: fields[1].update(metadata=generated))
    features = ["generatedColumns", "checkConstraints", "identityColumns", "clustering"]
    alter(partitioned, "protocol", lambda p: p["writerFeatures"].extend(features))
    before = ids(partitioned)
    delta.delete(partitioned, "id < 30")
    assert ids(partitioned) == [i for i in before if i >= 30]
    kinds = commit_of(partitioned, 4).keys()
    assert kinds == {"commitInfo", "add", "remove"}


# Damage ------------------------------------------------------------------------------------------------------


def rewrite(pattern: str, edit: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Changes the bytes of files."""

    def damage(table: Path) -> None:
        for file in table.glob(pattern):
            file.write_bytes(edit(file.read_bytes()))

    return damage


def remove(pattern: str) -> Callable[[Path], None]:
    def damage(table: Path) -> None:
        for file in table.glob(pattern):
            file.unlink()

    return damage


def flip(data: bytes) -> bytes:
    """Another bit in a vector."""
    return data[:30] + bytes([data[30] ^ 1]) + data[31:]


def describe(**descriptor: Any) -> Callable[[Path], None]:
    """Another descriptor of the vectors in version 3."""
    return lambda table: alter(table, "add", lambda add: add["deletionVector"].update(descriptor), 3)


def position_beyond(table: Path) -> None:
    text, size = dv.delta.encode_inline(PositionBitmap.from_positions([5, (1 << 32) + 3]))
    inline = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": 2}
    alter(table, "add", lambda add: add.update(deletionVector=inline), 3)


def position_beyond_in_a_file(table: Path) -> None:
    name = uuid.uuid4()
    record = dv.delta.encode(PositionBitmap.from_positions([5, 100]))
    (table / f"deletion_vector_{name}.bin").write_bytes(b"\1" + record)
    describe(
        pathOrInlineDv=dv.delta.z85_encode(name.bytes), offset=1, sizeInBytes=len(record) - 8, cardinality=2
    )(table)


def without_removes(version: int, spelling: Callable[[Path, str], str]) -> Callable[[Path], None]:
    """Leaves out the removes of a delete: the files are live with their old vector and with the new one."""

    def damage(table: Path) -> None:
        alter(table, "add", lambda add: add.update(path=spelling(table, add["path"])), version)
        lines = lines_of(table, version)
        write_lines(table, version, [line for line in lines if "remove" not in line])

    return damage


def live_twice_in_a_checkpoint(table: Path) -> None:
    file = table / CHECKPOINT
    rows = pq.read_table(file)
    untouched = rows.filter(pa.array(["part=p%201" in str(add) for add in rows["add"].to_pylist()]))
    pq.write_table(pa.concat_tables([rows, untouched]), file)


class Damage(NamedTuple):
    """What is done to a golden table, and the error that follows."""

    do: Callable[[Path], None]
    error: type[errors.PuffinFastError]
    where: str
    table: str = "spark_partitioned"


CHECKPOINT = f"_delta_log/{2:020d}.checkpoint.parquet"
CORRUPT, GONE, UNSUPPORTED = errors.CorruptDataError, errors.NotFoundError, errors.UnsupportedError
IN_VECTORS = {
    "a torn vector": Damage(rewrite("*.bin", lambda data: data[:40]), CORRUPT, "deletion_vector_"),
    "an altered vector": Damage(rewrite("*.bin", flip), CORRUPT, "deletion_vector_"),
    "a missing vector": Damage(remove("*.bin"), GONE, "deletion_vector_"),
    "wrong Z85": Damage(describe(pathOrInlineDv='"' * 20), CORRUPT, "part=p 0"),
    "a position beyond": Damage(position_beyond, CORRUPT, "part=p 0"),
    "a position beyond in a file": Damage(position_beyond_in_a_file, CORRUPT, "part=p 0"),
    "live with two vectors": Damage(
        without_removes(3, lambda table, path: path), CORRUPT, "found 2, of version 2 "
    ),
    "live with and without a vector": Damage(
        without_removes(2, lambda table, path: path), CORRUPT, "version 1 (no deletion vector)"
    ),
    "live in two spellings": Damage(
        without_removes(3, lambda table, path: path.replace("part=", "p%61rt=")), CORRUPT, "part=p "
    ),
    "live under an absolute path": Damage(
        without_removes(3, lambda table, path: f"file://{table}/{path}"), CORRUPT, "part=p "
    ),
    "live twice in a checkpoint": Damage(
        live_twice_in_a_checkpoint, CORRUPT, "found 2, of version 2", "spark_v1_checkpoint"
    ),
}
IN_THE_LOG = {
    "a gap": Damage(remove(commit_path(2)), CORRUPT, "_delta_log"),
    "no commit": Damage(rewrite(commit_path(3), lambda data: b"\0\0\0"), CORRUPT, f"{3:020d}.json"),
    "a torn checkpoint": Damage(
        rewrite(CHECKPOINT, lambda data: data[:-20]), CORRUPT, CHECKPOINT, "spark_v1_checkpoint"
    ),
    "no sidecar": Damage(remove("_delta_log/_sidecars/*"), GONE, "_sidecars", "spark_v2_checkpoint"),
    "a future protocol": Damage(
        lambda table: alter(table, "protocol", lambda p: p.update(minReaderVersion=4)),
        UNSUPPORTED,
        "reader version 4",
    ),
    "a future feature": Damage(
        lambda table: alter(table, "protocol", lambda p: p["readerFeatures"].append("teleportation")),
        UNSUPPORTED,
        "teleportation",
    ),
}
ROWS = pa.table({"id": [3, 5000], "v": ["x", "y"], "part": ["p 0", "p 0"]})
VERBS: dict[str, Callable[[Path], object]] = {
    "scan": lambda table: delta.scan(table).to_arrow(),
    "vectors": delta.vectors,
    "delete": lambda table: delta.delete(table, "id < 150 and v != 'v6'"),
    "delete_keys": lambda table: delta.delete_keys(table, ROWS, "id"),
    "delete_positions": lambda table: delta.delete_positions(
        table,
        pa.table({"file_path": [str(path) for path in table.glob("part=p 0/*.parquet")], "pos": [8]}),
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
    catalog = sqlite_catalog(tempfile.mkdtemp(dir=table.parent))
    try:
        delta.to_iceberg(table, catalog, "n.t")
    except errors.PuffinFastError:
        assert catalog.list_tables("n") == []
        raise
    finally:
        catalog.engine.dispose()


@pytest.mark.parametrize("name", IN_VECTORS | IN_THE_LOG)
def test_damage_is_refused_by_its_place_and_nothing_changes(name: str, golden: Golden) -> None:
    damage = (IN_VECTORS | IN_THE_LOG)[name]
    table = golden(damage.table)
    damage.do(table)
    for verb in (VERBS if name in IN_VECTORS else VERBS | ON_THE_LOG).values():
        with refused(table, damage.error, re.escape(damage.where)) as caught:
            verb(table)
        found = caught.value
        if isinstance(found, CORRUPT) and name != "a torn checkpoint":  # PyArrow's words
            assert None not in (found.path, found.expected, found.found)


@pytest.mark.parametrize("name", IN_VECTORS)
def test_verify_finds_damaged_vectors(name: str, golden: Golden) -> None:
    table = golden(IN_VECTORS[name].table)
    IN_VECTORS[name].do(table)
    with unchanged(table):
        problems = delta.verify(table)
    assert problems != []
    assert all(problem.data_file.startswith(str(table)) for problem in problems)


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
def test_a_table_on_read_only_storage_is_read_and_writes_are_refused(partitioned: Path) -> None:
    reads = ("scan", "vectors", "to_iceberg")
    with unchanged(partitioned):
        found = run_read_only(partitioned, READ_ONLY, partitioned)
    assert found == [f"done {name}" if name in reads else f"refused {name} True" for name in VERBS]
