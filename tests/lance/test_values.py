"""Values of every kind in place of those of a manifest, a transaction and a deletion file of Lance."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import arrow, errors
from puffin_fast import lance as ours
from tests.conftest import require_module
from tests.kit.thrift import Reader, varint
from tests.lance.deletions import GOLDEN

N_CASES = int(os.environ.get("PUFFIN_FAST_OPERATIONS", 100))
TAIL_BYTES = 16
"""The position of the manifest, the version of the format and the magic, at the end of a file of the manifest."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Protobuf's wire types."""
SIZES = {FIXED64: 8, FIXED32: 4}
MISSING, TWICE = "missing", "twice"
KINDS: list[Any] = [
    *(MISSING, TWICE, (VARINT, 0), (VARINT, 1), (VARINT, 2**31), (VARINT, 2**63), (VARINT, 2**64 - 1)),
    *((BYTES, b""), (BYTES, b"x"), (BYTES, b"\xff\xfe"), (BYTES, b"../x"), (BYTES, b"\x08\x01")),
    *((FIXED32, b"\1\2\3\4"), (FIXED64, b"\xff" * 8)),
]
Place = tuple[int, ...]


def fields(message: bytes) -> list[tuple[int, int, Any]]:
    """The fields of a message: number, wire type, value. Nothing if the bytes are not a message."""
    source, found = Reader(message), []
    with suppress(IndexError, KeyError):
        while source.at < len(message):
            tag = source.varint()
            kind = tag & 7
            value: Any = (
                source.varint()
                if kind == VARINT
                else source.take(source.varint() if kind == BYTES else SIZES[kind])
            )
            found.append((tag >> 3, kind, value))
        return found if source.at == len(message) else []
    return []


def message_of(found: list[tuple[int, int, Any]]) -> bytes:
    parts = []
    for number, kind, value in found:
        parts.append(varint(number << 3 | kind))
        if kind == BYTES:
            parts.append(varint(len(value)))
        parts.append(varint(value) if kind == VARINT else value)
    return b"".join(parts)


def places(message: bytes, place: Place = ()) -> Iterator[Place]:
    """The places of all fields, those of inner messages included; also of texts that happen to be one."""
    for at, (_, kind, value) in enumerate(fields(message)):
        yield (*place, at)
        if kind == BYTES:
            yield from places(value, (*place, at))


def replaced(message: bytes, place: Place, new: Any) -> bytes:
    found = fields(message)
    number, kind, value = found[place[0]]
    if len(place) > 1:
        found[place[0]] = (number, kind, replaced(value, place[1:], new))
    elif new == MISSING:
        del found[place[0]]
    elif new == TWICE:
        found.append(found[place[0]])
    else:
        found[place[0]] = (number, *new)
    return message_of(found)


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "little") + message


def message_at(data: bytes, at: int) -> bytes:
    return data[at + 4 : at + 4 + int.from_bytes(data[at : at + 4], "little")]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    require_module("lance", "pip install 'puffin-fast[lance]'")
    return Path(shutil.copytree(GOLDEN / "array_and_bitmap.lance", tmp_path / "t.lance"))


def deleted_rows(dataset: Any) -> int | None:
    """The rows that pylance does not count; None if it cannot count."""
    try:
        n_rows = sum(fragment.physical_rows for fragment in dataset.get_fragments())
        return int(n_rows) - int(dataset.count_rows())
    except BaseException:  # Rust's panics are no Exception
        return None


def check(dataset: Path) -> None:
    """The vectors have the rows that pylance does not count; a delete adds its rows, or raises an error of ours."""
    lance = require_module("lance")
    uri = str(dataset)
    with suppress(errors.PuffinFastError):
        found = ours.vectors(uri)
        assert deleted_rows(lance.dataset(uri)) in (None, sum(found["cardinality"].to_pylist()))
    with suppress(errors.PuffinFastError):
        ours.delete_positions(uri, {0: [1, 2], 1: range(30)}, dry_run=True)
    with suppress(errors.PuffinFastError):
        changed = ours.delete_positions(uri, {0: [1, 2], 1: range(30)})
        deleted = arrow.decode(ours.vectors(changed)["blob"]).to_pylist()
        assert {1, 2} <= set(deleted[0])
        assert set(range(30)) <= set(deleted[1])


def put(dataset: Path, change: Callable[[bytes, bytes], tuple[bytes, bytes]]) -> None:
    """Replaces the messages of the file of the manifest: the manifest, and the transaction before it."""
    (path,) = (dataset / "_versions").glob("*.manifest")
    data = path.read_bytes()
    at = int.from_bytes(data[-TAIL_BYTES : 8 - TAIL_BYTES], "little")
    before = message_at(data, at), message_at(data, 0)
    manifest, transaction = map(framed, change(*before))
    between = data[4 + len(before[1]) : at]
    position = (len(transaction) + len(between)).to_bytes(8, "little")
    path.write_bytes(transaction + between + manifest + position + data[8 - TAIL_BYTES :])


def test_values_of_the_manifest_and_the_transaction_are_refused_or_read(dataset: Path) -> None:
    parts: list[bytes] = []

    def keep(*messages: bytes) -> tuple[bytes, bytes]:
        parts[:] = messages
        return messages[0], messages[1]

    put(dataset, keep)
    cases = [(n, place, kind) for n in (0, 1) for place in places(parts[n]) for kind in KINDS]
    assert len(cases) > 900
    for n, place, kind in random.Random(0).sample(cases, min(len(cases), N_CASES // 2)):
        changed = replaced(parts[n], place, kind)
        copy = Path(shutil.copytree(dataset, dataset.with_name("copy.lance")))
        put(copy, lambda *before, n=n, new=changed: (new, before[1]) if n == 0 else (before[0], new))
        try:
            check(copy)
        except BaseException as error:
            error.add_note(f"{'transaction' if n else 'manifest'}, {place}: {kind}")
            raise
        shutil.rmtree(copy)


# Numbers of fields, from Lance's table.proto
FRAGMENTS, VERSION = 2, 3
FILES, DELETION_FILE, PHYSICAL_ROWS = 2, 3, 4
READ_VERSION, BASE_ID = 2, 7


def at(message: bytes, number: int) -> int:
    return next(at for at, (found, *_) in enumerate(fields(message)) if found == number)


def place_of(manifest: bytes, *numbers: int) -> Place:
    place: Place = ()
    for number in numbers:
        place = (*place, at(manifest, number))
        manifest = fields(manifest)[place[-1]][2]
    return place


CASES: list[tuple[tuple[int, ...], Any, Any, type[errors.PuffinFastError], str]] = [
    (
        (FRAGMENTS,),
        (VARINT, 1),
        ours.vectors,
        errors.CorruptDataError,
        "Manifest.fragments: invalid wire type",
    ),
    ((FRAGMENTS, FILES), MISSING, ours.vectors, errors.NotFoundError, "does not contain any data"),
    (
        (FRAGMENTS, PHYSICAL_ROWS),
        (VARINT, 2**63),
        ours.vectors,
        errors.CorruptDataError,
        "at most 4294967296",
    ),
    ((FRAGMENTS,), TWICE, None, errors.CorruptDataError, r"each id once, found \[0, 1, 0\]"),
    ((FRAGMENTS, DELETION_FILE, READ_VERSION), (VARINT, 7), None, errors.NotFoundError, "_deletions/0-7-"),
    ((VERSION,), (VARINT, 2**64 - 1), None, errors.UnsupportedError, "is detached"),
]
"""Fields of the manifest, a value, the verb or None for a delete, its error."""


@pytest.mark.parametrize(("numbers", "new", "verb", "kind", "words"), CASES)
def test_values_of_the_manifest_that_pylance_fails_for_are_refused(
    dataset: Path,
    numbers: tuple[int, ...],
    new: Any,
    verb: Callable[[str], object] | None,
    kind: type[errors.PuffinFastError],
    words: str,
) -> None:
    put(dataset, lambda manifest, other: (replaced(manifest, place_of(manifest, *numbers), new), other))
    with pytest.raises(kind, match=words):
        (verb or (lambda uri: ours.delete_positions(uri, {0: [1, 2], 1: range(30)})))(str(dataset))


ROWS = pa.array(range(10), pa.uint32())
COLUMNS: dict[str, dict[str, pa.Array]] = {
    "no column": {},
    "two columns": {"row_id": ROWS, "x": ROWS},
    "another name": {"id": ROWS},
    "a null": {"row_id": pa.array([None, *range(9)], pa.uint32())},
    "dictionary": {"row_id": ROWS.dictionary_encode()},
    "runs": {"row_id": pc.run_end_encode(ROWS)},
    "struct": {"row_id": pa.StructArray.from_arrays([ROWS], ["row_id"])},
    "null": {"row_id": pa.nulls(10)},
    "text": {"row_id": ROWS.cast(pa.string())},
    "int64": {"row_id": ROWS.cast(pa.int64())},
    "double": {"row_id": ROWS.cast(pa.float64())},
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_deletion_file_with_values_of_another_type_is_refused(dataset: Path, kind: str) -> None:
    path = dataset / ours.vectors(str(dataset))["deletion_file"][0].as_py()
    with pa.OSFile(str(path), "wb") as sink:
        table = pa.table(COLUMNS[kind])
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(errors.CorruptDataError, match=path.name):
        ours.vectors(str(dataset))
    with pytest.raises(errors.PuffinFastError):
        ours.delete_positions(str(dataset), {0: [1, 2]})
