"""Columns of the records of an Avro file, which a kernel decodes by need.

The kernel walks the records of all blocks once and gathers the wanted fields. A column is decoded from there: to
arrays, or for some of the records to Python objects. Schemas that the kernel does not know, and wrong bytes, are read
by fastavro, which reports the errors; what it reads is encoded again, for the kernel.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from typing import Any, NamedTuple

import fastavro
import numpy as np
import numpy.typing as npt

from puffin_fast._kernels.avro import records as avro
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.avro.file import AVRO_ERRORS, AvroFile
from puffin_fast.avro.integers import Column, Integers
from puffin_fast.avro.programs import is_one_value, kernel_type, program
from puffin_fast.avro.schema import PlainSchema, value_type
from puffin_fast.columns.objects import Same
from puffin_fast.errors import CorruptDataError

_MANY_RECORDS = 8
"""Number of records from which on equal values are looked for."""

_FEW_BYTES = 16
"""Values of more bytes are not compared with each other: they are paths and metrics."""


class Field:
    """A field of records.

    Args:
        kind: its type, by `kernel_type`.
    """

    def __init__(self, kind: Any) -> None:
        self.program = array("q", program(kind))
        self.value_type = value_type(kind)
        self.is_one_value = is_one_value(kind)


class Located(NamedTuple):
    """Values that were located or decoded when the records were gathered, by the names of their fields.

    Attributes:
        places: the offsets of values.
        integers: decoded integers.
        texts: the offsets of strings or bytes, and their sizes, -1 for null.
        numbered: distinct strings or bytes, and the number of that of each record.
    """

    places: dict[str, Integers]
    integers: dict[str, Column]
    texts: dict[str, tuple[Integers, Integers]]
    numbered: dict[str, tuple[list[bytes], Column]]

    def take(self, rows: npt.NDArray[Any]) -> Located:
        """Returns those of some records, by index or by mask."""
        return Located(
            {name: places[rows] for name, places in self.places.items()},
            {name: column.take(rows) for name, column in self.integers.items()},
            {name: (starts[rows], sizes[rows]) for name, (starts, sizes) in self.texts.items()},
            {name: (known, numbers.take(rows)) for name, (known, numbers) in self.numbered.items()},
        )


class Records:
    """Records that are decoded by column.

    Args:
        data: their bytes.
        fields: their fields, in the order of the bytes.
        starts: the offset of each record in `data`.
        located: what is known of the values of some fields.
        constants: fields that take no bytes, and their only value.
    """

    def __init__(
        self,
        data: bytes | bytearray,
        fields: Mapping[str, Field],
        starts: Integers,
        located: Located,
        constants: Mapping[str, Any],
    ) -> None:
        self.data, self._fields, self._starts = data, fields, starts
        self._found, self._constants = located, constants
        self._origins: Integers | None = None  # the offset of each record in its block

    @classmethod
    def of(
        cls,
        file: AvroFile,
        names: Collection[str],
        located: Iterable[str] = (),
        chosen: tuple[Records, Integers] | None = None,
    ) -> Records:
        """Gathers some fields of a file's records.

        Args:
            names: the fields; those that the file does not have are left out.
            located: fields that are decoded at once for all records: those of `names`, integers, and the distinct
                strings of other fields. The other fields of `names` may be decoded, too.
            chosen: all records of the file with other fields, and the ascending indexes of those that are gathered.

        Raises:
            CorruptDataError: the bytes are not records of the schema.
        """
        names = {*names, *file.plain.branches}
        fields, located = file.schema["fields"], {*located, *file.plain.branches}
        constants = {name: value for name, value in file.plain.constants.items() if name in names}
        found = _gathered(file, names, located, constants, chosen)
        if found is None:
            found = _encoded(file, [field for field in fields if _is_read(field, names, located)], constants)
            if chosen is not None:
                found = found.take(chosen[1])
        for name, branch in file.plain.branches.items():
            if (found.integers(name).short[0] != branch).any():
                raise CorruptDataError(
                    "data_file of a manifest entry", path=file.path, expected="a record", found="null"
                )
        return found

    def __len__(self) -> int:
        return len(self._starts)

    def __contains__(self, name: str) -> bool:
        """Whether there is a field of this name whose values can be decoded."""
        return (
            name in self._constants
            or name in self._found.integers
            or (name in self._fields and self._fields[name].is_one_value)
        )

    def take(self, rows: npt.NDArray[Any]) -> Records:
        """Returns some of the records, by index or by mask."""
        return Records(self.data, self._fields, self._starts[rows], self._found.take(rows), self._constants)

    def located(self, names: Collection[str]) -> Records:
        """Returns the same records; values of other fields are located again when they are decoded."""
        found = self._found
        some = Located(
            {name: places for name, places in found.places.items() if name in names},
            {name: integers for name, integers in found.integers.items() if name in names},
            {name: texts for name, texts in found.texts.items() if name in names},
            {name: numbered for name, numbered in found.numbered.items() if name in names},
        )
        return Records(self.data, self._fields, self._starts, some, self._constants)

    def integers(self, name: str) -> Column:
        """Decodes a field of integers."""
        if (known := self._found.integers.get(name)) is not None:
            return known
        if name in self._constants:
            return Column.of(None, len(self))
        values, valid = np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        avro.longs(self.data, self._located(name), self._program(name), values, valid.view(np.uint8))
        return Column(values, valid)

    def numbered(self, name: str) -> tuple[list[bytes], Column] | None:
        """Returns the distinct strings of a field that was located, and the number of that of each record.

        None if the field was not located, or is in the records, or has many distinct strings, long ones or nulls.
        """
        return self._found.numbered.get(name)

    def places(self, names: Sequence[str]) -> list[Integers]:
        """Finds the values of some fields: their offsets in `data`."""
        return self._locate(names)

    def encoding(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Returns how the bytes of each record are read: the name and the program of each field."""
        return tuple((name, tuple(field.program)) for name, field in self._fields.items())

    def ends(self) -> Integers:
        """Returns the offset after each record of all that were gathered."""
        return np.append(self._starts[1:], len(self.data))

    def spans(self, name: str) -> tuple[Integers, Integers]:
        """Finds the bytes of a field of strings or bytes: offsets in `data`, and sizes, -1 for null."""
        if name in self._constants:
            return np.zeros(len(self), np.int64), np.full(len(self), -1, np.int64)
        known = self._found.texts.get(name)
        return self._spans(self._located(name), self._program(name)) if known is None else known

    def entries_of(self, name: str, key: int) -> tuple[Integers, Integers] | None:
        """Finds the bytes of the value of a key in a field of maps from integers to bytes.

        Returns:
            as `spans`, -1 also for maps without the key; None if the field is of another type.
        """
        if name not in self._fields or self._fields[name].value_type != "map<long, bytes>":
            return None
        words = self._program(name)
        at = 3 if words[0] == avro.OPTIONAL else 0
        if words[at] != avro.MAP or words[at + 2] != avro.LONG:
            return None
        starts, sizes = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        avro.entries(self.data, self._located(name), words, key, starts, sizes)
        return starts, sizes

    def together(self, names: Collection[str]) -> tuple[Integers, Integers] | None:
        """Finds the bytes of neighboring fields together: offsets in `data`, and sizes. Equal bytes are equal values.

        Returns:
            None if the fields are not neighbors, or the last ones of a record.
        """
        every = list(self._fields)
        at = [number for number, name in enumerate(every) if name in names]
        if not at:
            return np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        if at[-1] - at[0] + 1 != len(at) or at[-1] + 1 == len(every):
            return None
        starts, ends = self._locate([every[at[0]], every[at[-1] + 1]])
        return starts, ends - starts

    def values(self, names: Iterable[str]) -> dict[str, list[Any]]:
        """Decodes fields to Python objects, a list for each field; maps become dicts. Other names are left out."""
        names = set(names)
        wanted = [name for name in self._fields if name in names and name in self]
        missing = [name for name in wanted if name not in self._found.places]
        places = self._found.places | dict(
            zip(missing, self._locate(missing) if missing else (), strict=True)
        )
        found = {name: avro.values(self.data, places[name], self._program(name)) for name in wanted}
        return found | {name: [value] * len(self) for name, value in self._constants.items() if name in names}

    def columns(self, names: Collection[str]) -> dict[str, list[Any] | Same]:
        """Decodes fields to columns of Python objects, as `values` does; equal ones of many are decoded once."""
        if len(self) < _MANY_RECORDS:
            return {**self.values(names)}
        every = list(self._fields)
        ends = {name: after for name, after in pairwise(every) if name in names}
        located = [name for name in every if name in {*names, *ends.values()}]
        places = dict(zip(located, self._locate(located), strict=True)) if located else {}
        found = self._found._replace(places=self._found.places | places)
        records = Records(self.data, self._fields, self._starts, found, self._constants)
        same = [name for name in ends if len(self) and self._are_equal(places[name], places[ends[name]])]
        first = records.take(np.arange(1)).values(same) if same else {}
        columns: dict[str, list[Any] | Same] = {name: Same(values[0]) for name, values in first.items()}
        columns |= {name: Same(value) for name, value in self._constants.items() if name in names}
        others = [name for name in located if name in names and name not in columns]
        integers = [name for name in others if self._fields[name].value_type == "long"]
        columns |= {name: records.integers(name).to_list() for name in integers}
        return columns | records.values(set(others).difference(integers))

    def _are_equal(self, starts: Integers, ends: Integers) -> bool:
        """Whether all values between some offsets have the same bytes, and few of them."""
        size = int(ends[0] - starts[0])
        if size > _FEW_BYTES or (ends - starts != size).any():
            return False
        data = np.frombuffer(self.data, np.uint8)
        return all((data[starts + at] == data[starts[0] + at]).all() for at in range(size))

    def _spans(self, places: Integers, words: array[int]) -> tuple[Integers, Integers]:
        starts, sizes = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
        avro.spans(self.data, places, words, starts, sizes)
        return starts, sizes

    def _program(self, name: str) -> array[int]:
        return self._fields[name].program

    def _located(self, name: str) -> Integers:
        found = self._found.places.get(name)
        return self._locate([name])[0] if found is None else found

    def _locate(self, names: Sequence[str]) -> list[Integers]:
        words, sizes, left = array("q"), array("q"), set(names)
        for name, field in self._fields.items():
            words.extend(field.program)
            sizes.append(len(field.program) if name in left else -len(field.program))
            left.discard(name)
            if not left:
                break
        places = np.empty((len(names), len(self)), np.int64)
        avro.locate(self.data, self._starts, words, sizes, places)
        ordered = [name for name in self._fields if name in names]
        return [places[ordered.index(name)] for name in names]


class _Layout(NamedTuple):
    """How the kernel gathers some fields of records.

    Attributes:
        fields: the fields that are gathered.
        roles: what is kept of the values of located fields, in the order of the fields.
        words, sizes, of_field: the program, the words and the role of each field; neighbors that are left out are one.
    """

    fields: dict[str, Field]
    roles: dict[str, int]
    words: array[int]
    sizes: array[int]
    of_field: bytes


@lru_cache(maxsize=64)
def _layout(plain: PlainSchema, names: frozenset[str], located: frozenset[str]) -> _Layout | None:
    """The layout for files of a schema; None if fastavro must read them."""
    kinds = {field["name"]: kernel_type(field["type"]) for field in plain.record["fields"]}
    if not all(kind and (name not in names or is_one_value(kind)) for name, kind in kinds.items()):
        return None
    words, sizes, of_field = array("q"), array("q"), bytearray()
    roles = {name: _role(kind) for name, kind in kinds.items() if name in located}
    roles = {
        name: avro.NUMBER if role == avro.TEXT and name not in names else role for name, role in roles.items()
    }
    roles = {name: role for name, role in roles.items() if name in names or role != avro.PLACE}
    for name, kind in kinds.items():
        own = program(kind)
        words.extend(own)
        if name not in names and name not in roles and sizes and sizes[-1] < 0 and not of_field[-1]:
            sizes[-1] -= len(own)
            continue
        sizes.append(len(own) if name in names else -len(own))
        of_field.append(roles.get(name, 0))
    fields = {name: Field(kind) for name, kind in kinds.items() if name in names}
    return _Layout(fields, roles, words, sizes, bytes(of_field))


def _gathered(
    file: AvroFile,
    names: Collection[str],
    located: Collection[str],
    constants: Mapping[str, Any],
    chosen: tuple[Records, Integers] | None,
) -> Records | None:
    """Gathers fields by the kernel; None if fastavro must read the file."""
    layout = _layout(file.plain, frozenset(names), frozenset(located))
    if layout is None:
        return None
    numbers, counts = np.arange(len(file.blocks)), np.array(file.blocks.counts, np.int64)
    offsets, flags = np.empty(file.n_records, np.int64), None
    if chosen is not None and chosen[0]._origins is not None:
        numbers, offsets, flags = _blocks_of(counts, chosen[0]._origins, chosen[1])
    n = len(offsets) if flags is None else int(flags.sum())
    of_role = [*layout.roles.values()]
    starts, slots = np.empty(n, np.int64), np.empty((len(of_role) + of_role.count(avro.TEXT), n), np.int64)
    n_integers = of_role.count(avro.INTEGER) + of_role.count(avro.NUMBER)
    valid, varies = np.empty((n_integers, n), np.bool_), np.empty(n_integers, np.bool_)
    gathered = avro.gather(
        (block.data for block in file.blocks.some(numbers.tolist())),
        counts[numbers].tolist(),
        layout.words,
        layout.sizes,
        layout.of_field,
        starts,
        slots,
        valid.view(np.uint8),
        varies.view(np.uint8),
        offsets,
        flags,
    )
    if gathered is None:
        return None
    data, texts = gathered
    found = _by_roles(layout.roles, slots, valid, varies.tolist(), texts)
    records = Records(data, layout.fields, starts, found, constants)
    if flags is None:
        records._origins = offsets
        return records if chosen is None else records.take(chosen[1])
    return records


def _by_roles(
    roles: Mapping[str, int],
    slots: Integers,
    valid: npt.NDArray[np.bool_],
    varies: Sequence[bool],
    texts: Sequence[list[bytes] | None],
) -> Located:
    """What the kernel found of the values of fields."""
    found, n = Located({}, {}, {}, {}), slots.shape[1]
    columns, of_integers, distinct = iter(slots), zip(valid, varies, strict=True), iter(texts)
    for name, role in roles.items():
        values = next(columns)
        if role == avro.TEXT:
            found.texts[name] = values, next(columns)
            continue
        if role == avro.PLACE:
            found.places[name] = values
            continue
        are_valid, differ = next(of_integers)
        if differ or not n:
            column = Column(values.copy(), are_valid.copy())
        else:
            column = Column.of(int(values[0]) if are_valid[0] else None, n)
        if role == avro.INTEGER:
            found.integers[name] = column
        elif (known := next(distinct)) is not None:
            found.numbered[name] = known, column
    return found


def _role(kind: Any) -> int:
    """What is kept of the values of a located field of a type from `kernel_type`."""
    single = next(part for part in kind if part != "null") if isinstance(kind, list) else kind
    return {"long": avro.INTEGER, "string": avro.TEXT, "bytes": avro.TEXT}.get(
        single if isinstance(single, str) else "", avro.PLACE
    )


def _blocks_of(
    counts: Integers, origins: Integers, rows: Integers
) -> tuple[Integers, Integers, npt.NDArray[np.uint8]]:
    """The numbers of blocks with chosen records; for each of their records, its offset, and 1 if it is chosen."""
    has = np.zeros(len(counts), np.bool_)
    has[np.searchsorted(np.cumsum(counts), rows, "right")] = True
    flags = np.zeros(len(origins), np.uint8)
    flags[rows] = 1
    own = np.repeat(has, counts)
    return np.flatnonzero(has), origins[own], flags[own]


def _is_read(field: Mapping[str, Any], names: Collection[str], located: Collection[str]) -> bool:
    return field["name"] in names or (field["name"] in located and value_type(field["type"]) == "long")


_ENCODED = ("boolean", "long", "double", "bytes", "string")


def _encoded(file: AvroFile, fields: Sequence[dict[str, Any]], constants: Mapping[str, Any]) -> Records:
    """Reads fields by fastavro and encodes them in types that the kernel supports; others are left out.

    Raises:
        CorruptDataError: the bytes are not records of the schema.
    """
    kinds = {field["name"]: _encoded_type(field["name"], field["type"]) for field in fields}
    kinds = {name: kind for name, kind in kinds.items() if kind is not None}
    schema = {
        "type": "record",
        "name": "fields",
        "fields": [{"name": name, "type": kind} for name, kind in kinds.items()],
    }
    parsed, out = fastavro.parse_schema(schema), BytesIO()
    starts = np.empty(file.n_records, np.int64)
    for row, record in enumerate(file.records()):
        starts[row] = out.tell()
        try:
            fastavro.schemaless_writer(out, parsed, {name: record[name] for name in kinds})
        except AVRO_ERRORS as error:
            if is_from_outside(error):
                raise
            raise CorruptDataError(f"records of an Avro file: {error!r}", path=file.path) from error
    return Records(
        out.getvalue(),
        {name: Field(kind) for name, kind in kinds.items()},
        starts,
        Located({}, {}, {}, {}),
        constants,
    )


def _encoded_type(name: str, kind: Any) -> Any:
    found = value_type(kind)
    if found in _ENCODED:
        return ["null", found]
    if found.startswith("list<") and found[5:-1] in _ENCODED:
        return ["null", {"type": "array", "items": ["null", found[5:-1]]}]
    key, _, value = found[4:-1].partition(", ")
    if found.startswith("map<") and key in _ENCODED and value in _ENCODED:
        pair = {
            "type": "record",
            "name": f"pair_{name}",
            "fields": [{"name": "key", "type": key}, {"name": "value", "type": ["null", value]}],
        }
        return ["null", {"type": "array", "items": pair}]
    return None
