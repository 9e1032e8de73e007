"""Columns of the records of an Avro file, which a kernel decodes by need.

The kernel walks the records of all blocks once and gathers the wanted fields. A column is decoded from there: to
arrays, or for some of the records to Python objects. Schemas that the kernel does not know, and wrong bytes, are read
by fastavro, which reports the errors; what it reads is encoded again, for the kernel.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, TypeAlias

import fastavro
import numpy as np
import numpy.typing as npt

from puffin_fast._kernels.avro import records as avro
from puffin_fast._run.interrupt import is_from_outside
from puffin_fast.avro.file import AVRO_ERRORS, AvroFile
from puffin_fast.avro.programs import is_one_value, kernel_type, program
from puffin_fast.avro.schema import value_type
from puffin_fast.errors import CorruptDataError

Integers: TypeAlias = "npt.NDArray[np.int64]"
Flags: TypeAlias = "npt.NDArray[np.bool_]"


class Records:
    """Records that are decoded by column.

    Args:
        data: their bytes.
        kinds: the types of their fields by name, in the order of the bytes, by `kernel_type`.
        starts: the offset of each record in `data`.
        places: the offsets of the values of some fields.
        constants: fields that take no bytes, and their only value.
    """

    def __init__(
        self,
        data: bytes | bytearray,
        kinds: Mapping[str, Any],
        starts: Integers,
        places: Mapping[str, Integers],
        constants: Mapping[str, Any],
    ) -> None:
        self.data, self._kinds, self._starts = data, kinds, starts
        self._places, self._constants = dict(places), constants

    @classmethod
    def of(cls, file: AvroFile, names: Collection[str], located: Iterable[str] = ()) -> Records:
        """Gathers some fields of a file's records.

        Args:
            file: an Avro file.
            names: the fields; those that the file does not have are left out.
            located: those of `names` that are decoded at once for all records. Others may be decoded, too.

        Raises:
            CorruptDataError: the bytes are not records of the schema.
        """
        names = {*names, *file.plain.branches}
        fields, located = file.schema["fields"], {*located, *file.plain.branches}
        constants = {name: value for name, value in file.plain.constants.items() if name in names}
        found = _gathered(file, fields, names, located, constants)
        if found is None:
            found = _encoded(file, [field for field in fields if field["name"] in names], constants)
        for name, branch in file.plain.branches.items():
            values, _ = found.integers(name)
            if (values != branch).any():
                raise CorruptDataError(
                    "data_file of a manifest entry", path=file.path, expected="a record", found="null"
                )
        return found

    def __len__(self) -> int:
        return len(self._starts)

    def __contains__(self, name: str) -> bool:
        """Whether there is a field of this name whose values can be decoded."""
        return name in self._constants or (name in self._kinds and is_one_value(self._kinds[name]))

    def take(self, rows: npt.NDArray[Any]) -> Records:
        """Returns some of the records, by index or by mask."""
        places = {name: found[rows] for name, found in self._places.items()}
        return Records(self.data, self._kinds, self._starts[rows], places, self._constants)

    def with_places(self, names: Collection[str]) -> Records:
        """Returns the same records; values of other fields are located again when they are decoded."""
        places = {name: found for name, found in self._places.items() if name in names}
        return Records(self.data, self._kinds, self._starts, places, self._constants)

    def integers(self, name: str) -> tuple[Integers, Flags]:
        """Decodes a field of integers: the values, 0 for null, and whether they are valid."""
        values, valid = np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        if name not in self._constants:
            avro.longs(self.data, self._located(name), self._program(name), values, valid.view(np.uint8))
        return values, valid

    def spans(self, name: str) -> tuple[Integers, Integers]:
        """Finds the bytes of a field of strings or bytes: offsets in `data`, and sizes, -1 for null."""
        if name in self._constants:
            return np.zeros(len(self), np.int64), np.full(len(self), -1, np.int64)
        return self._spans(self._located(name), self._program(name))

    def entries_of(self, name: str, key: int) -> tuple[Integers, Integers] | None:
        """Finds the bytes of the value of a key in a field of maps from integers to bytes.

        Returns:
            as `spans`, -1 also for maps without the key; None if the field is of another type.
        """
        if name not in self._kinds or value_type(self._kinds[name]) != "map<long, bytes>":
            return None
        words = array("q", self._program(name))
        at = 3 if words[0] == avro.OPTIONAL else 0
        if words[at] != avro.MAP or words[at + 2] != avro.LONG:
            return None
        found = np.empty(len(self), np.int64)
        avro.values_of(self.data, self._located(name), words, key, found)
        return self._spans(found, words[at + 3 :])

    def together(self, names: Collection[str]) -> tuple[Integers, Integers] | None:
        """Finds the bytes of neighboring fields together: offsets in `data`, and sizes. Equal bytes are equal values.

        Returns:
            None if the fields are not neighbors, or the last ones of a record.
        """
        every = list(self._kinds)
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
        wanted = [name for name in self._kinds if name in names and name in self]
        missing = [name for name in wanted if name not in self._places]
        places = dict(zip(missing, self._locate(missing), strict=True)) if missing else {}
        found = {
            name: avro.values(self.data, places.get(name, self._places.get(name)), self._program(name))
            for name in wanted
        }
        return found | {name: [value] * len(self) for name, value in self._constants.items() if name in names}

    def _spans(self, places: Integers, words: array[int]) -> tuple[Integers, Integers]:
        starts, sizes = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
        avro.spans(self.data, places, words, starts, sizes)
        return starts, sizes

    def _program(self, name: str) -> array[int]:
        return array("q", program(self._kinds[name]))

    def _located(self, name: str) -> Integers:
        found = self._places.get(name)
        return self._locate([name])[0] if found is None else found

    def _locate(self, names: Sequence[str]) -> list[Integers]:
        words, sizes, left = array("q"), array("q"), set(names)
        for name, kind in self._kinds.items():
            own = program(kind)
            words.extend(own)
            sizes.append(len(own) if name in left else -len(own))
            left.discard(name)
            if not left:
                break
        places = np.empty((len(names), len(self)), np.int64)
        avro.locate(self.data, self._starts, words, sizes, places)
        ordered = [name for name in self._kinds if name in names]
        return [places[ordered.index(name)] for name in names]


def _gathered(
    file: AvroFile,
    fields: Sequence[dict[str, Any]],
    names: Collection[str],
    located: Collection[str],
    constants: Mapping[str, Any],
) -> Records | None:
    """Gathers fields by the kernel; None if fastavro must read the file."""
    kinds = {field["name"]: kernel_type(field["type"]) for field in fields}
    if not all(kind and (name not in names or is_one_value(kind)) for name, kind in kinds.items()):
        return None
    words, sizes, flags = array("q"), array("q"), bytearray()
    for name, kind in kinds.items():
        own = program(kind)
        words.extend(own)
        sizes.append(len(own) if name in names else -len(own))
        flags.append(name in names and name in located)
    starts = np.empty(file.n_records, np.int64)
    places = np.empty((sum(flags), len(starts)), np.int64)
    blocks, counts = [block.data for block in file.blocks], [block.n_records for block in file.blocks]
    data = avro.gather(blocks, counts, words, sizes, flags, starts, places)
    if data is None:
        return None
    where = [name for name, flag in zip(kinds, flags, strict=True) if flag]
    own_kinds = {name: kind for name, kind in kinds.items() if name in names}
    return Records(data, own_kinds, starts, dict(zip(where, places, strict=True)), constants)


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
    return Records(out.getvalue(), kinds, starts, {}, constants)


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
