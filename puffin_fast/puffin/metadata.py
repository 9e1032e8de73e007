"""What a Puffin footer says: the file's blobs and properties, as plain data and as JSON.

    {"blobs": [{"type": "…", "fields": [1], "snapshot-id": 2, "sequence-number": 1, "offset": 4, "length": 9,
                "compression-codec": "zstd", "properties": {"…": "…"}}, …],
     "properties": {"created-by": "…"}}

Keys in the order above (the Java writer's); the last key of a blob and the file's ``properties`` are
optional, so is ``compression-codec``. Reading is strict about what the specification's tables say (sections
FileMetadata and BlobMetadata), and silent about keys that they do not name: a later version may.
"""

from __future__ import annotations

import gc
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NoReturn

from puffin_fast.errors import CorruptDataError, InvalidInputError
from puffin_fast.puffin import _typed

__all__ = ["BlobMetadata", "FileMetadata", "check_writable", "from_json", "to_json"]

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

PAUSE_COLLECTOR_BYTES = 1 << 20
"""From this size of JSON on, the collector pauses while objects are made that all stay: 3x faster."""

SHOWN_CHARACTERS = 60
"""How much of a wrong value an error shows."""


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """One blob of a Puffin file (specification, BlobMetadata).

    Attributes:
        type: kind of the blob, such as ``deletion-vector-v1``.
        fields: ids of the table's fields that it was computed for.
        snapshot_id: the table's snapshot that it was computed from, -1 for deletion vectors.
        sequence_number: the sequence number of that snapshot, -1 for deletion vectors.
        offset: first byte of the blob in the file.
        length: bytes in the file, after compression.
        compression_codec: ``lz4``, ``zstd`` or None.
        properties: whatever else, by name; do not change them.
    """

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """What the footer of a Puffin file holds (specification, FileMetadata).

    Attributes:
        blobs: in the order of the footer.
        properties: of the file, such as ``created-by``; do not change them.
    """

    blobs: tuple[BlobMetadata, ...] = ()
    properties: dict[str, str] = field(default_factory=dict, hash=False)


# Writing -------------------------------------------------------------------------------------------------

_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))


def to_json(metadata: FileMetadata) -> bytes:
    """The footer's payload, uncompressed; empty properties of a blob are left out."""
    with _collector_paused(len(metadata.blobs) * 100):
        document: dict[str, Any] = {"blobs": [_blob_to_json(blob) for blob in metadata.blobs]}
        if metadata.properties:
            document["properties"] = metadata.properties
        return _ENCODER.encode(document).encode()


def _blob_to_json(blob: BlobMetadata) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": blob.type,
        "fields": blob.fields,
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    if blob.compression_codec is not None:
        document["compression-codec"] = blob.compression_codec
    if blob.properties:
        document["properties"] = blob.properties
    return document


def check_writable(
    *, type: str, fields: tuple[int, ...], snapshot_id: int, sequence_number: int, properties: dict[str, str]
) -> None:
    """Refuses what the specification's tables do not allow, by name.

    Raises:
        InvalidInputError: a wrong type, an integer out of range, text that is not Unicode.
    """
    if not isinstance(type, str) or not type:
        raise InvalidInputError(f"type: expected a blob type, found {type!r}")
    _check_text("type", type)
    for name, value, low, high in (
        *((f"fields[{i}]", value, INT_MIN, INT_MAX) for i, value in enumerate(fields)),
        ("snapshot_id", snapshot_id, LONG_MIN, LONG_MAX),
        ("sequence_number", sequence_number, LONG_MIN, LONG_MAX),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidInputError(
                f"{name}: expected an integer of {high.bit_length() + 1} bits, found {value!r}"
            )
    check_properties(properties)


def check_properties(properties: dict[str, str]) -> None:
    """Names and values of properties are strings that UTF-8 can hold, else InvalidInputError."""
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInputError(f"properties: expected text for text, found {name!r}: {value!r}")
        _check_text("properties", name)
        _check_text(f"properties[{name!r}]", value)


def _check_text(what: str, text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{what}: UTF-8 cannot hold {text!r}: {error.reason}") from None


# Reading -------------------------------------------------------------------------------------------------


def from_json(
    payload: bytes | memoryview, *, path: str | None = None, offset: int | None = None
) -> FileMetadata:
    """Reads and checks the footer's payload, uncompressed.

    Args:
        payload: UTF-8 JSON.
        path: the file, for errors.
        offset: where in the file the payload starts, for errors; None where it was compressed there, and
            offsets in errors count from the start of the JSON.

    Raises:
        CorruptDataError: not UTF-8, not JSON, a repeated key, a field that misses or is of a wrong kind.
    """
    start = offset or 0
    with _collector_paused(len(payload)):
        text = _decode(payload, path, start)
        quick = _typed.read(text)
        if quick is not None:
            return FileMetadata(_blobs(*quick[0]), quick[1])
        reader = _Reader(path, start)
        metadata = reader.read(_parse(text, path, start))
        # Python keeps the last of repeated keys. Without escapes each string has two quotation marks: as
        # many strings in the result as in the text, and none was dropped. Else look at each object, slower.
        if "\\" in text or 2 * reader.n_strings != text.count('"'):
            _parse(text, path, start, hook=_unique)
        return metadata


def _decode(payload: bytes | memoryview, path: str | None, start: int) -> str:
    try:
        return str(payload, "utf-8")
    except UnicodeDecodeError as error:
        raise CorruptDataError(
            "footer payload",
            path=path,
            offset=start + error.start,
            expected="UTF-8",
            found=f"bytes {error.object[error.start : error.end].hex(' ')}",
        ) from None


def _parse(text: str, path: str | None, start: int, *, hook: Callable[[Any], Any] | None = None) -> Any:
    """JSON without the liberties of Python's parser: NaN, lone surrogates, any depth, any exception."""
    try:
        document = json.loads(text, object_pairs_hook=hook, parse_constant=_no_constant)
        if "\\" in text and "\\u" in text:  # one character is looked for 30 times as fast as two
            _check_surrogates(text, document)
    except json.JSONDecodeError as error:
        at = start + len(text[: error.pos].encode())
        raise CorruptDataError(
            "footer payload", path=path, offset=at, expected="JSON", found=error.msg
        ) from None
    except RecursionError:
        raise CorruptDataError(
            "footer payload", path=path, offset=start, expected="JSON of few levels", found="too many levels"
        ) from None
    except ValueError as error:  # a repeated key, a constant, an integer of thousands of digits, a surrogate
        raise CorruptDataError(
            "footer payload", path=path, offset=start, expected="JSON", found=error
        ) from None
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"the key {key[:SHOWN_CHARACTERS]!r} twice in one object")
        seen.add(key)
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"the constant {name}")


def _check_surrogates(text: str, document: Any) -> None:
    try:
        _ENCODER.encode(document).encode()
    except UnicodeEncodeError:
        raise ValueError(f"an escape of half a character (of {text.count(chr(92) + 'u')} escapes)") from None


# A frozen dataclass fills its slots by name; through the slots themselves, for all blobs at once, it takes a third.
_SETTERS = [getattr(BlobMetadata, name).__set__ for name in BlobMetadata.__slots__]

_Raw = dict[str, Any]


def _blobs(*columns: Sequence[Any]) -> tuple[BlobMetadata, ...]:
    """Blobs of checked values, a column for each field; none makes no blobs."""
    if not columns:
        return ()
    kinds, fields, *others = columns
    blobs = tuple(map(object.__new__, repeat(BlobMetadata, len(kinds))))
    for set_one, column in zip(_SETTERS, (_shared(kinds), _shared(fields), *others), strict=True):
        deque(map(set_one, blobs, column), maxlen=0)
    return blobs


def _shared(values: Sequence[Any]) -> list[Any]:
    """Equal values as one object: types and fields of 100,000 blobs are kept once."""
    known: dict[Any, Any] = {}
    return list(map(known.setdefault, values, values))


class _Reader:
    """Checks what was parsed, field by field of all blobs, and remembers where it came from.

    Attributes:
        n_strings: keys and string values in what `read` returned, keys that nobody knows counted.
    """

    def __init__(self, path: str | None, start: int) -> None:
        self._path = path
        self._start = start
        self.n_strings = 0

    def read(self, document: Any) -> FileMetadata:
        if type(document) is not dict:
            self._refuse("footer payload", "a JSON object", document)
        raw = document.get("blobs")
        if type(raw) is not list:
            self._refuse("blobs", "a list of objects", raw, document)
        self._check("blobs[{}]", raw, "an object", {dict})
        properties = document.get("properties", {})
        self._check("properties", [properties], "an object", {dict})
        self._check_properties("properties", [properties])
        blobs = self._blobs(raw)
        self.n_strings += len(document) + 2 * len(properties)
        return FileMetadata(blobs, properties)

    def _blobs(self, raw: list[_Raw]) -> tuple[BlobMetadata, ...]:
        kinds = self._column(raw, "type", "a string", str)
        fields = self._fields(raw)
        integer = "an integer of 64 bits"
        snapshot_ids = self._integers(raw, "snapshot-id", integer, LONG_MIN)
        sequence_numbers = self._integers(raw, "sequence-number", integer, LONG_MIN)
        integer = "an integer from 0 to 2^63 - 1"
        offsets = self._integers(raw, "offset", integer, 0)
        lengths = self._integers(raw, "length", integer, 0)
        # null counts as missing, as Java's and PyIceberg's readers have it
        codecs = [blob.get("compression-codec") for blob in raw]
        self._check("blobs[{}].compression-codec", codecs, "a string", {str, type(None)})
        properties = [blob.get("properties", {}) for blob in raw]
        self._check("blobs[{}].properties", properties, "an object", {dict})
        self._check_properties("blobs[{}].properties", properties)
        self.n_strings += (
            sum(map(len, raw)) + len(raw) + (len(raw) - codecs.count(None)) + 2 * sum(map(len, properties))
        )
        return _blobs(kinds, fields, snapshot_ids, sequence_numbers, offsets, lengths, codecs, properties)

    def _column(self, raw: list[_Raw], name: str, expected: str, kind: type) -> list[Any]:
        """What every blob must have, each of one type."""
        try:
            column = list(map(itemgetter(name), raw))
        except KeyError:
            index = next(index for index, blob in enumerate(raw) if name not in blob)
            self._refuse(f"blobs[{index}].{name}", expected, None, raw[index])
        self._check(f"blobs[{{}}].{name}", column, expected, {kind})
        return column

    def _integers(self, raw: list[_Raw], name: str, expected: str, low: int) -> list[int]:
        """Integers from low to LONG_MAX."""
        column = self._column(raw, name, expected, int)
        if column and not low <= min(column) <= max(column) <= LONG_MAX:
            index = next(index for index, value in enumerate(column) if not low <= value <= LONG_MAX)
            self._refuse(f"blobs[{index}].{name}", expected, column[index])
        return column

    def _fields(self, raw: list[_Raw]) -> list[tuple[int, ...]]:
        column = self._column(raw, "fields", "a list of integers", list)
        ids = list(chain.from_iterable(column))
        if ids and not (set(map(type, ids)) == {int} and INT_MIN <= min(ids) <= max(ids) <= INT_MAX):
            index, found = next(
                (index, id)
                for index, some in enumerate(column)
                for id in some
                if type(id) is not int or not INT_MIN <= id <= INT_MAX
            )
            self._refuse(f"blobs[{index}].fields", "integers of 32 bits", found)
        return list(map(tuple, column))

    def _check_properties(self, where: str, properties: list[_Raw]) -> None:
        if set(map(type, chain.from_iterable(map(dict.values, properties)))) <= {str}:
            return
        for index, some in enumerate(properties):
            for name, value in some.items():
                if type(value) is not str:
                    self._refuse(f"{where.format(index)}[{name[:SHOWN_CHARACTERS]!r}]", "a string", value)

    def _check(self, where: str, column: list[Any], expected: str, kinds: set[type]) -> None:
        """Refuses the first of a column that is of another type; `where` has a place for its index."""
        if not set(map(type, column)) <= kinds:
            index = next(index for index, value in enumerate(column) if type(value) not in kinds)
            self._refuse(where.format(index), expected, column[index])

    def _refuse(
        self, field: str, expected: str, found: Any, inside: dict[str, Any] | None = None
    ) -> NoReturn:
        name = field.rpartition(".")[2]
        shown = "nothing" if inside is not None and name not in inside else _shown(found)
        raise CorruptDataError(
            f"footer field {field}", path=self._path, offset=self._start, expected=expected, found=shown
        )


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > 10**SHOWN_CHARACTERS:
        return f"an integer of {value.bit_length()} bits"  # str() of a huge one is refused by Python
    text = json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


@contextmanager
def _collector_paused(n_bytes: int) -> Iterator[None]:
    """No garbage collection while many objects are made that all stay: it would walk them again and again."""
    if n_bytes < PAUSE_COLLECTOR_BYTES or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
