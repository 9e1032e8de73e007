"""Changes of bytes, and of the values of an Avro file or a JSON document that stay well formed."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import fastavro

NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)
Place = tuple[Any, Any]
"""A dict or list, and the key or index of a value in it."""


def mutated(data: bytes, choose: random.Random) -> bytes:
    """The bytes with one to four changes."""
    result = bytearray(data)
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        at = choose.randrange(len(result)) if result else 0
        kind = choose.randrange(8)
        if kind <= 2 and result:
            result[at] ^= 1 << choose.randrange(8)
        elif kind == 3 and result:
            result[at] = choose.choice(NUMBERS[:5])
        elif kind == 4:
            width = choose.choice((2, 4, 8))
            word = (choose.choice(NUMBERS) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
            result[at : at + width] = word
        elif kind == 5:
            del result[at : at + choose.choice((1, 2, 8, 64, len(result)))]
        elif kind == 6:
            result[at:at] = bytes(choose.randrange(256) for _ in range(choose.choice((1, 2, 9))))
        else:
            other = choose.randrange(len(result) + 1)
            part = result[other : other + choose.choice((1, 4, 16, 200))]
            result[at : at + len(part)] = part
    return bytes(result)


def avro_mutated(data: bytes, choose: random.Random) -> bytes:
    """A valid Avro file with one value changed, two values swapped, or records left out, repeated or reordered."""
    reader = fastavro.reader(io.BytesIO(data))
    records: list[Any] = list(reader)
    _change(records, choose)
    header = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
    sink = io.BytesIO()
    schema = json.loads(reader.metadata["avro.schema"])
    fastavro.writer(sink, schema, records, codec=reader.codec, metadata=header, strict_allow_default=True)
    return sink.getvalue()


def json_mutated(data: bytes, choose: random.Random) -> bytes:
    """A JSON document with one value changed, two values swapped, or an item left out, repeated or moved."""
    document = json.loads(data)
    _change(document, choose)
    return json.dumps(document).encode()


def _change(document: Any, choose: random.Random) -> None:
    places = list(_places(document))
    kind = choose.randrange(5)
    if kind == 0:
        lists = [part for part, at in places if isinstance(part, list) and at == 0]
        if lists:
            _reorder(choose.choice(lists), choose)
            return
    if kind <= 2:
        part, at = choose.choice(places)
        kin = [place for place in places if place[1] == at] if kind == 1 else places
        other, other_at = choose.choice(kin)
        part[at], other[other_at] = other[other_at], part[at]
        return
    part, at = choose.choice([place for place in places if not isinstance(place[0][place[1]], (dict, list))])
    part[at] = _changed(part[at], choose)


def _places(document: Any) -> Iterator[Place]:
    """Every value below a document."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for at, value in items:
        yield document, at
        if isinstance(value, (dict, list)):
            yield from _places(value)


def _reorder(items: list[Any], choose: random.Random) -> None:
    at = choose.randrange(len(items))
    kind = choose.randrange(3)
    if kind == 0:
        del items[at]
    elif kind == 1:
        items.insert(choose.randrange(len(items) + 1), items[at])
    else:
        choose.shuffle(items)


def _changed(value: Any, choose: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return choose.choice(
            (value + 1, value - 1, -value, value ^ 1 << choose.randrange(40), *NUMBERS[:9], None)
        )
    if isinstance(value, str):
        return choose.choice((value[:-1], value + "0", "", value.upper(), value[::-1], None))
    if isinstance(value, bytes):
        return choose.choice((value[:-1], value + b"\0", b"", value[::-1], mutated(value, choose)))
    return choose.choice((0, 1, "0", None))


WELL_FORMED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "metadata": json_mutated,
    "manifest_list": avro_mutated,
    "manifest": avro_mutated,
    "delete_manifest": avro_mutated,
    "position_delete_manifest": avro_mutated,
}
"""By target: the changes that keep a file of it well formed."""
