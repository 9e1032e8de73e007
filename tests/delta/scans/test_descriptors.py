"""Descriptors of deletion vectors: what is read, what is written, and what is refused before anything is read."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin_fast import PositionBitmap, delta, dv, errors
from tests.delta.tables import Golden, alter, commit_of, ids
from tests.kit.tables import files_of

WRONG: list[tuple[Callable[[dict[str, Any]], object], bool, str]] = [
    (lambda d: d.update(storageType="x"), True, "storage type: expected u, p or i, found 'x'"),
    (lambda d: d.update(storageType="uu"), True, "storage type: expected u, p or i, found 'uu'"),
    (lambda d: d.update(storageType=None), True, "storage type|descriptor"),
    (lambda d: d.update(pathOrInlineDv=None), True, "pathOrInlineDv"),
    (lambda d: d.update(pathOrInlineDv="short"), True, "Z85|UUID"),
    (lambda d: d.update(pathOrInlineDv="abc"), True, "Z85"),
    (lambda d: d.update(pathOrInlineDv="!!!" + d["pathOrInlineDv"][:-1] + '"'), True, "Z85"),
    (lambda d: d.update(sizeInBytes=-1), True, "sizeInBytes"),
    (lambda d: d.update(sizeInBytes=None), True, "sizeInBytes"),
    (lambda d: d.pop("sizeInBytes"), True, "descriptor"),
    (lambda d: d.update(sizeInBytes=77), False, "length of magic and vector|CRC|beyond the end"),
    (lambda d: d.update(cardinality=-1), True, "cardinality"),
    (lambda d: d.update(cardinality=22), False, "cardinality"),
    (lambda d: d.update(offset=-1), True, "offset of a descriptor: expected at least 0, found -1"),
    (lambda d: d.update(offset=2), False, "magic|length|beyond the end"),
    (lambda d: d.update(offset=1 << 30), False, "beyond the end"),
]
"""An edit of a descriptor, whether it is refused when files are planned, and the message."""


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_a_wrong_descriptor_is_refused_and_verify_reports_it(case: int, partitioned: Path) -> None:
    edit, is_planned, message = WRONG[case]
    alter(partitioned, "add", lambda add: edit(add["deletionVector"]), 3)
    scan = delta.scan(partitioned)
    for read in (scan.tasks if is_planned else scan.to_arrow, lambda: delta.vectors(partitioned)):
        with pytest.raises(errors.PuffinFastError, match=message) as caught:
            read()
        assert str(partitioned) in str(caught.value)
    assert any(re.search(message, problem.message) for problem in delta.verify(partitioned))


def test_a_missing_offset_means_the_first_record(partitioned: Path) -> None:
    alter(partitioned, "add", lambda add: add["deletionVector"].pop("offset"), 3)
    assert delta.scan(partitioned).to_arrow().num_rows == 257


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
    before, live = files_of(table), ids(table)
    done = delta.delete(table, "id < 15")
    assert done.vectors_merged == done.vectors_written == 1
    assert ids(table) == [i for i in live if i >= 15]
    actions = commit_of(table, 3)
    (new,) = [path for path in files_of(table) - before if path.suffix == ".bin"]
    descriptor = actions["add"][0]["deletionVector"]
    data = new.read_bytes()
    assert data[0] == 1
    assert data[descriptor["offset"] + 4 :][:4] == bytes.fromhex("d1d33964")
    assert actions["remove"][0]["deletionVector"] == old["deletionVector"]
    assert ("offset" in old["deletionVector"]) == (name != "hand_inline")
