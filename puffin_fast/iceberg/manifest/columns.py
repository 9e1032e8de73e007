"""The entries of a manifest as columns. Entries are made of them by need: they take longer than all else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pyiceberg.utils.decimal import bytes_to_decimal

from puffin_fast._kernels.rows.texts import Texts
from puffin_fast.avro.columns import Records
from puffin_fast.avro.integers import Column, Integers, Mask
from puffin_fast.avro.schema import PartitionColumn, PlainSchema
from puffin_fast.columns.objects import Objects, Same, column
from puffin_fast.iceberg.manifest.entries import ManifestEntry, ManifestFile

_ENTRY_FIELDS = tuple(field.name for field in fields(ManifestEntry))


class FileColumns:
    """Files of a manifest, with inherited values.

    Args:
        manifest: its record in the manifest list.
        records: the records of the file.
        formats: the distinct file formats, and the number of that of each file.
        inherited: columns of values that a manifest may leave to the manifest list.
        partition: the partition columns in the order of the spec; None for a value that is null.
        schema: the schema of the records in the manifest.
    """

    def __init__(
        self,
        manifest: ManifestFile,
        records: Records,
        formats: tuple[Sequence[str], Column],
        inherited: dict[str, Column],
        partition: Sequence[PartitionColumn | None],
        schema: PlainSchema,
    ) -> None:
        self.manifest, self.schema = manifest, schema
        self._records, self._formats, self._inherited, self._partition = (
            records,
            formats,
            inherited,
            partition,
        )

    def __len__(self) -> int:
        return len(self._records)

    def take(self, rows: npt.NDArray[Any]) -> FileColumns:
        """Returns some of the files, by index or by mask."""
        if rows.all() if rows.dtype == np.bool_ else np.array_equal(rows, np.arange(len(self))):
            return self
        names, formats = self._formats
        inherited = {name: column.take(rows) for name, column in self._inherited.items()}
        taken = self._records.take(rows)
        return self._with(taken, (names, formats.take(rows)), inherited)

    def with_records(self, records: Records) -> FileColumns:
        """Returns the same files with other fields of their records."""
        return self._with(records, self._formats, self._inherited)

    def _with(
        self, records: Records, formats: tuple[Sequence[str], Column], inherited: dict[str, Column]
    ) -> FileColumns:
        return FileColumns(self.manifest, records, formats, inherited, self._partition, self.schema)

    @property
    def records(self) -> Records:
        """The records of the files in the manifest."""
        return self._records

    def located(self, names: Collection[str]) -> FileColumns:
        """Returns the same files; values of other fields are located again when they are decoded."""
        return self.with_records(self._records.located(names))

    def compact(self) -> None:
        """Forgets where values are, which takes memory; they are found again when they are decoded."""
        self._records = self._records.located(())

    def integers(self, name: str) -> Column:
        """Decodes a field of integers."""
        found = self._inherited.get(name)
        if found is not None:
            return found
        if name not in self._records:
            return Column.of(None, len(self))
        return self._records.integers(name)

    def texts(self, name: str) -> tuple[Any, Integers, Integers]:
        """Finds the bytes of a field of strings: a buffer, the offset of each in it, and its size, -1 for null."""
        if name not in self._records:
            return b"", np.zeros(len(self), np.int64), np.full(len(self), -1, np.int64)
        return self._records.data, *self._records.spans(name)

    def bounds(self, name: str, field_id: int) -> tuple[Any, Integers, Integers] | None:
        """Finds the bounds of a column, as `texts`; None if the manifest has bounds of another type, or none."""
        found = self._records.entries_of(name, field_id)
        return None if found is None else (self._records.data, *found)

    def nulls_only(self, field_id: int) -> Mask | None:
        """Which files have nulls only in a column: not known, counts are not decoded."""
        return None

    def has_format(self, name: str) -> Mask:
        """Which files have this format, in upper case."""
        names, numbers = self._formats
        return np.isin(numbers.values, [at for at, known in enumerate(names) if known == name])

    def partitions(self) -> tuple[Integers, list[tuple[Any, ...]]]:
        """Returns the number of the partition of each file, and the partitions."""
        found = self._records.together([column.name for column in self._partition if column])
        if found is None:
            by_value: dict[tuple[Any, ...], int] = {}
            every = self._partitions(self._records)
            ordered = [by_value.setdefault(partition, len(by_value)) for partition in every]
            return np.array(ordered, np.int64), list(by_value)
        known, numbers = Texts(), np.empty(len(self), np.int64)
        known.add(self._records.data, *found, numbers)
        first = np.zeros(len(known), np.int64)
        first[numbers[::-1]] = np.arange(len(self))[::-1]
        return numbers, self._partitions(self._records.take(first))

    def _partitions(self, records: Records) -> list[tuple[Any, ...]]:
        if not self._partition:
            return [()] * len(records)
        found = records.values(column.name for column in self._partition if column)
        nulls = [None] * len(records)
        ordered = [_scaled(column, found[column.name]) if column else nulls for column in self._partition]
        return list(zip(*ordered, strict=True))

    def entries(self) -> list[ManifestEntry]:
        """Makes the entries of all files."""
        return [*self.columns()] if len(self) else []

    def columns(self, left_out: Collection[str] = ()) -> Objects[ManifestEntry]:
        """Decodes the entries of all files; fields that are left out are None."""
        fields = [name for name in _ENTRY_FIELDS if name not in left_out]
        wanted = [name for name in fields if name not in self._inherited and name != "file_format"]
        columns: dict[str, Any] = dict(self._records.columns(wanted))
        columns |= {name: _of_integers(found) for name, found in self._inherited.items()}
        names, numbers = self._formats
        number = _of_integers(numbers)
        columns["file_format"] = (
            Same(names[number.value]) if isinstance(number, Same) else [names[one] for one in number]
        )
        columns["spec_id"] = Same(self.manifest.spec_id)
        columns["partition"] = self._partition_column()
        none = Same(None)
        return Objects(ManifestEntry, [columns.get(name, none) for name in _ENTRY_FIELDS], len(self))

    def _partition_column(self) -> Any:
        if not self._partition:
            return Same(())
        numbers, partitions = self.partitions()
        return column([partitions[number] for number in numbers.tolist()])


def _of_integers(found: Column) -> Any:
    values, valid = found.short
    return Same(found.take(np.arange(1)).to_list()[0]) if values.size == valid.size == 1 else found.to_list()


def _scaled(column: PartitionColumn, values: list[Any]) -> list[Any]:
    scale = column.scale
    if scale is None:
        return values
    return [None if value is None else bytes_to_decimal(value, scale) for value in values]


class Select(NamedTuple):
    """Chooses files of a manifest.

    Attributes:
        chosen: returns which of them are wanted.
        fields: the fields that it reads, besides integers and the partition.
    """

    chosen: Callable[[FileColumns], Mask]
    fields: Collection[str]


class Paths:
    """A set of paths, to find files of manifests without making their entries."""

    def __init__(self, paths: Iterable[str]) -> None:
        encoded = [path.encode(errors="surrogatepass") for path in paths]
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._known = Texts()
        self._known.add(b"".join(encoded), np.cumsum(sizes) - sizes, sizes, np.empty(len(sizes), np.int64))

    def __len__(self) -> int:
        return len(self._known)

    def add(self, files: FileColumns) -> None:
        """Adds the paths of files."""
        self._known.add(*files.texts("file_path"), np.empty(len(files), np.int64))

    def among(self, files: FileColumns) -> Mask:
        """Returns which files have one of the paths."""
        found = np.empty(len(files), np.int64)
        self._known.find(*files.texts("file_path"), found)
        return found >= 0

    @property
    def select(self) -> Select:
        """Chooses the files that have one of the paths."""
        return Select(self.among, ("file_path",))

    @property
    def select_deletes(self) -> Select:
        """Chooses the delete files that reference one of the data files, or do not reference a single data file."""
        return Select(self._referenced, ("referenced_data_file",))

    def _referenced(self, files: FileColumns) -> Mask:
        found = np.empty(len(files), np.int64)
        data, starts, sizes = files.texts("referenced_data_file")
        self._known.find(data, starts, sizes, found)
        return (found >= 0) | (sizes < 0)
