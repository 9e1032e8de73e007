"""Locates the deletion vectors of many data files by columns; each file of vectors is located once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.columns.row_selection import flags_of
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.delta.scans.descriptors import VectorLocation, locate, path_of
from puffin_fast.dv import delta as codec
from puffin_fast.errors import PuffinFastError

_INLINE = "i"
_SEPARATOR = "\x1f"
_NONE = -1


@dataclass(frozen=True)
class VectorColumns:
    """The deletion vectors of data files, one row for each data file.

    Inline vectors and those without offset are located one by one when they are requested: the former are decoded, and
    of the latter the file is read.

    Attributes:
        exists: bool, whether the data file has a vector.
        cardinality: int64, the number of deleted rows in the descriptor; 0 without a vector.
    """

    exists: npt.NDArray[np.bool_]
    cardinality: npt.NDArray[np.int64]
    _is_single: npt.NDArray[np.bool_]
    """Whether the vector is located by itself; it has no file, offset and length here."""
    _file: npt.NDArray[np.int32]
    """Indexes into the paths; `_NONE` without a path."""
    _offset: npt.NDArray[np.int64]
    _length: npt.NDArray[np.int64]
    _paths: npt.NDArray[np.object_]
    """The files of vectors; the last item is None."""
    _locate: Callable[[int], VectorLocation]

    @classmethod
    def of(
        cls, descriptors: pa.StructArray, storage: TableStorage, name: Callable[[int], str]
    ) -> VectorColumns:
        """Checks and locates vectors.

        Args:
            descriptors: columns of the log.
            name: returns the location of the data file of a row.

        Raises:
            CorruptDataError, UnsupportedError: as `descriptors.locate`, for the first wrong descriptor.
        """

        def locate_one(row: int) -> VectorLocation:
            return locate(descriptors[row].as_py(), storage, name(row))

        exists = flags_of(descriptors.is_valid())
        if not exists.any():
            zeros, none = np.zeros(len(exists), np.int64), np.array([None], np.object_)
            return cls(
                exists, zeros, exists, np.full(len(exists), _NONE, np.int32), zeros, zeros, none, locate_one
            )
        columns = {field.name: descriptors.field(at) for at, field in enumerate(descriptors.type)}
        kind, text = columns["storageType"], columns["pathOrInlineDv"]
        size, cardinality = (_integers(columns[column]) for column in ("sizeInBytes", "cardinality"))
        has_offset, offset = flags_of(columns["offset"].is_valid()), _integers(columns["offset"])
        is_wrong = (size < 0) | (cardinality < 0) | (has_offset & (offset < 0))
        is_wrong |= ~flags_of(pc.and_(kind.is_valid(), text.is_valid()))
        for row in np.flatnonzero(exists & is_wrong)[:1].tolist():
            locate_one(row)  # raises
        is_single = exists & ~(has_offset & flags_of(pc.fill_null(pc.not_equal(kind, _INLINE), False)))
        rows = np.flatnonzero(exists & ~is_single)
        file, paths = np.full(len(exists), _NONE, np.int32), []
        if len(rows):
            pairs = (array.take(pa.array(rows)) for array in (kind, text))
            names = pc.binary_join_element_wise(*pairs, _SEPARATOR).dictionary_encode()
            file[rows] = names.indices.to_numpy()
            for number, (kind_, _, text_) in enumerate(
                one.partition(_SEPARATOR) for one in names.dictionary.to_pylist()
            ):
                try:
                    paths.append(path_of({"storageType": kind_, "pathOrInlineDv": text_}, storage))
                except PuffinFastError:
                    locate_one(int(np.argmax(file == number)))  # raises, and names the data file
                    raise
        located = np.array([*paths, None], np.object_)
        length = size + codec.FRAME_BYTES
        return cls(
            exists, np.where(exists, cardinality, 0), is_single, file, offset, length, located, locate_one
        )

    def lists(self, rows: slice) -> tuple[list[str | None], list[int], list[int], list[int]]:
        """Returns the paths (None without a vector), offsets, lengths and cardinalities of the vectors of some rows.

        Raises:
            CorruptDataError: an inline vector is damaged, or the record of a vector without offset is not found.
            NotFoundError: the file of a vector without offset does not exist.
        """
        paths = self._paths[self._file[rows]].tolist()
        offsets, lengths = self._offset[rows].tolist(), self._length[rows].tolist()
        for at in np.flatnonzero(self._is_single[rows]).tolist():
            paths[at], offsets[at], lengths[at], _ = self._locate(range(len(self.exists))[rows][at])
        return paths, offsets, lengths, self.cardinality[rows].tolist()

    def to_arrow(self) -> dict[str, pa.Array]:
        """Returns the columns `path`, `offset`, `length` and `cardinality`; null for data files without a vector.

        Raises:
            As `lists`.
        """
        paths: Any
        if self._is_single.any():
            paths, offset, length, _ = self.lists(slice(None))
            paths = pa.array(paths, pa.string())
        else:
            offset, length = self._offset, self._length  # type: ignore[assignment]
            codes = pa.array(self._file, mask=~self.exists)
            paths = pa.array(self._paths[:-1], pa.string()).take(codes)
        missing = ~self.exists
        numbers = {"offset": offset, "length": length, "cardinality": self.cardinality}
        return {"path": paths} | {
            name: pa.array(np.asarray(values, np.int64), mask=missing) for name, values in numbers.items()
        }


def _integers(array: pa.Array) -> npt.NDArray[np.int64]:
    """Returns integers as int64; -1 for null."""
    found: npt.NDArray[np.int64] = pc.fill_null(array.cast(pa.int64()), -1).to_numpy()
    return found
