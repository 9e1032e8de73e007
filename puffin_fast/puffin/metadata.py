"""The metadata in a Puffin footer: the blobs and properties of the file, as objects and as JSON.

    {"blobs": [{"type": "…", "fields": [1], "snapshot-id": 2, "sequence-number": 1, "offset": 4, "length": 9,
                "compression-codec": "zstd", "properties": {"…": "…"}}, …],
     "properties": {"created-by": "…"}}

Keys are written in this order, as by the Java writer. ``compression-codec`` and both ``properties`` are optional.
Reading enforces the tables of the specification (sections FileMetadata and BlobMetadata), and ignores other keys,
which a later version may define.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NoReturn

from puffin_fast._api.arguments import check_unicode
from puffin_fast._process.gc_pause import paused_gc
from puffin_fast.errors import CorruptDataError, InvalidInputError
from puffin_fast.puffin import _typed

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

PAUSE_COLLECTOR_BYTES = 1 << 20
"""From this size of JSON, the garbage collector is paused while the objects are made: 3x faster."""

SHOWN_CHARACTERS = 60
"""Maximum characters of a wrong value in an error message."""


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """One blob of a Puffin file (specification, BlobMetadata).

    Attributes:
        type: the type of the blob, such as ``deletion-vector-v1``.
        fields: the ids of the table's fields that the blob was computed for.
        snapshot_id: the snapshot that the blob was computed from; -1 for deletion vectors.
        sequence_number: the sequence number of that snapshot; -1 for deletion vectors.
        offset: the offset of the blob in the file.
        length: the stored length in bytes, after compression.
        compression_codec: ``lz4``, ``zstd`` or None.
        properties: other properties by name; must not be modified.
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
    """The content of a Puffin footer (specification, FileMetadata).

    Attributes:
        blobs: the blobs, in the order of the footer.
        properties: the properties of the file, such as ``created-by``; must not be modified.
    """

    blobs: tuple[BlobMetadata, ...] = ()
    properties: dict[str, str] = field(default_factory=dict, hash=False)


# Writing -------------------------------------------------------------------------------------------------

_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))


def to_json(metadata: FileMetadata) -> bytes:
    """Encodes the uncompressed payload of a footer; empty properties of a blob are omitted."""
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


def check_writable(*, type: str, fields: tuple[int, ...], snapshot_id: int, sequence_number: int) -> None:
    """Checks the fields of a blob by the tables of the specification.

    Raises:
        InvalidInputError: a value has a wrong type, is an integer out of range, or text that is not Unicode.
    """
    if not isinstance(type, str) or not type:
        raise InvalidInputError(f"type: expected a blob type, found {type!r}")
    check_unicode("type", type)
    for name, value, low, high in (
        *((f"fields[{i}]", value, INT_MIN, INT_MAX) for i, value in enumerate(fields)),
        ("snapshot_id", snapshot_id, LONG_MIN, LONG_MAX),
        ("sequence_number", sequence_number, LONG_MIN, LONG_MAX),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidInputError(
                f"{name}: expected an integer of {high.bit_length() + 1} bits, found {value!r}"
            )


# Reading -------------------------------------------------------------------------------------------------


def from_json(
    payload: bytes | memoryview, *, path: str | None = None, offset: int | None = None
) -> FileMetadata:
    """Decodes and checks the uncompressed payload of a footer.

    Args:
        payload: UTF-8 JSON.
        path: the file, for error messages.
        offset: the offset of the payload in the file, for error messages. None if the payload was compressed;
            offsets in messages then count from the start of the JSON.

    Raises:
        CorruptDataError: invalid UTF-8 or JSON, a repeated key, or a field that is missing or has a wrong type.
    """
    start = offset or 0
    with _collector_paused(len(payload)):
        text = _decode(payload, path, start)
        quick = _typed.read(text)
        if quick is not None:
            return FileMetadata(_blobs(*quick[0]), quick[1])
        reader = _Reader(path, start)
        metadata = reader.read(_parse(text, path, start))
        # Of repeated keys, Python's parser returns the last one. Without escapes each string has two quotation marks:
        # if the result has as many strings as the text, no key was repeated. Else check each object, which is slower.
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
    """Parses JSON. Refuses NaN and lone surrogates, which Python accepts; all errors are CorruptDataError."""
    try:
        document = json.loads(text, object_pairs_hook=hook, parse_constant=_no_constant)
        if "\\" in text and "\\u" in text:  # the search for one character is 30 times as fast as for two
            _check_surrogates(text, document)
    except json.JSONDecodeError as error:
        at = start + len(text[: error.pos].encode())
        raise CorruptDataError(
            "footer payload", path=path, offset=at, expected="JSON", found=error.msg
        ) from None
    except RecursionError:
        raise CorruptDataError(
            "footer payload",
            path=path,
            offset=start,
            expected="JSON of few levels",
            found="JSON nested too deeply",
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
            raise ValueError(f"repeated key {key[:SHOWN_CHARACTERS]!r} in an object")
        seen.add(key)
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"the constant {name}")


def _check_surrogates(text: str, document: Any) -> None:
    try:
        _ENCODER.encode(document).encode()
    except UnicodeEncodeError:
        raise ValueError(f"a lone surrogate in one of {text.count(chr(92) + 'u')} escapes") from None


# Setting the slots of all blobs at once takes a third of the time of the constructor of a frozen dataclass.
_SETTERS = [getattr(BlobMetadata, name).__set__ for name in BlobMetadata.__slots__]

_Raw = dict[str, Any]


def _blobs(*columns: Sequence[Any]) -> tuple[BlobMetadata, ...]:
    """Makes blobs from checked values, one column per field; no columns make no blobs."""
    if not columns:
        return ()
    kinds, fields, *others = columns
    blobs = tuple(map(object.__new__, repeat(BlobMetadata, len(kinds))))
    for set_one, column in zip(_SETTERS, (_shared(kinds), _shared(fields), *others), strict=True):
        deque(map(set_one, blobs, column), maxlen=0)
    return blobs


def _shared(values: Sequence[Any]) -> list[Any]:
    """Replaces equal values by one object, so that the types and fields of 100,000 blobs are stored once."""
    known: dict[Any, Any] = {}
    return list(map(known.setdefault, values, values))


class _Reader:
    """Checks parsed JSON, each field for all blobs at once.

    Attributes:
        n_strings: the number of keys and string values in the result of `read`, including unknown keys.
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
        # null counts as missing, as in the readers of Java and PyIceberg
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
        """Reads a required field of all blobs and checks its type."""
        try:
            column = list(map(itemgetter(name), raw))
        except KeyError:
            index = next(index for index, blob in enumerate(raw) if name not in blob)
            self._refuse(f"blobs[{index}].{name}", expected, None, raw[index])
        self._check(f"blobs[{{}}].{name}", column, expected, {kind})
        return column

    def _integers(self, raw: list[_Raw], name: str, expected: str, low: int) -> list[int]:
        """Reads a required field of integers from `low` to LONG_MAX."""
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
        """Checks the types of a column; `where` is the name of the field, with a placeholder for the index."""
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
        return f"an integer of {value.bit_length()} bits"  # Python refuses str() of a very large integer
    text = json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _collector_paused(n_bytes: int) -> AbstractContextManager[None]:
    """Pauses the garbage collector while many objects are made, which it would traverse repeatedly."""
    return nullcontext() if n_bytes < PAUSE_COLLECTOR_BYTES else paused_gc()
