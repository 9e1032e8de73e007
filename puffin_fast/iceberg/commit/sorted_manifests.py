"""The files of several manifests in the order of their partitions and paths, for manifests of the target size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyiceberg.table import TableProperties

from puffin_fast.iceberg.compat.table_properties import integer_property
from puffin_fast.iceberg.manifest import EXISTING, ManifestEntry, ManifestFile, can_write, read_many
from puffin_fast.iceberg.manifest.columns import FileColumns

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata


class SortedFiles:
    """The live files of some manifests of one content and partition spec.

    Args:
        parts: the files of each manifest.
        per_manifest: number of entries of a new manifest.
    """

    def __init__(self, parts: Sequence[FileColumns], per_manifest: int) -> None:
        self._parts, self._per_manifest = parts, per_manifest
        keys = _keys(parts)
        self._order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def is_done(self) -> bool:
        """Whether the manifests have this order and are not too many."""
        in_order = bool((self._order == np.arange(len(self))).all())
        return in_order and len(self._parts) <= -(-len(self) // self._per_manifest)

    @property
    def n_manifests(self) -> int:
        """The number of new manifests."""
        return -(-len(self) // self._per_manifest)

    def chunks(self) -> Iterator[list[ManifestEntry]]:
        """Yields the entries of each new manifest. What they inherited is written out: ids and numbers stay."""
        ends = np.cumsum([len(part) for part in self._parts])
        for start in range(0, len(self), self._per_manifest):
            rows = self._order[start : start + self._per_manifest]
            found: dict[int, ManifestEntry] = {}
            of_part = np.searchsorted(ends, rows, "right")
            for number in np.unique(of_part).tolist():
                part, some = self._parts[number], rows[of_part == number]
                entries = part.take(some - (ends[number] - len(part))).entries()
                found.update(zip(some.tolist(), entries, strict=True))
            for entry in found.values():
                entry.status = EXISTING
            yield [found[row] for row in rows.tolist()]


def unsorted(
    io: FileIO, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> dict[tuple[int, int], SortedFiles]:
    """Returns the files of manifests that are not in order, too many, or list removed files, by content and id of the
    partition spec.

    Manifests of specs that cannot be written, and encrypted ones, are left out.

    Raises:
        CorruptDataError, NotFoundError: a manifest is damaged or missing.
        InvalidInputError: the property ``commit.manifest.target-size-bytes`` is no positive integer.
    """
    limit = integer_property(
        metadata.properties,
        TableProperties.MANIFEST_TARGET_SIZE_BYTES,
        TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
    )
    groups: dict[tuple[int, int], list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        groups[manifest.content, manifest.spec_id].append(manifest)
    specs, found = metadata.specs(), {}
    for (content, spec_id), group in groups.items():
        spec = specs.get(spec_id)
        if spec is None or not can_write(metadata, spec) or any(m.key_metadata is not None for m in group):
            continue
        parts = list(read_many(io, group, specs))
        n_files, n_bytes = sum(map(len, parts)), sum(manifest.length for manifest in group)
        files = SortedFiles(parts, max(1, n_files * limit // max(n_bytes, 1)))
        if not files.is_done or any(manifest.deleted_files_count != 0 for manifest in group):
            found[content, spec_id] = files
    return found


def _keys(parts: Sequence[FileColumns]) -> list[tuple[Any, ...]]:
    """The keys by which files are sorted: partition and path of the data file, path, and offset in it.

    The vectors of a Puffin file stay together, at the place of the first of them, in the order of the file: DuckDB
    1.5.5 may confuse them in its file cache if the order is another.
    """
    found, first = list[tuple[Any, bytes | None, int | None]](), dict[bytes | None, Any]()
    for part in parts:
        numbers, partitions = part.partitions()
        places = [tuple(map(_comparable, partition)) for partition in partitions]
        paths, named = _texts(part, "file_path"), _texts(part, "referenced_data_file")
        offsets = part.integers("content_offset").values.tolist()
        for number, path, data_file, offset in zip(numbers.tolist(), paths, named, offsets, strict=True):
            place = places[number], path if data_file is None else data_file
            found.append((place, path, offset))
            first[path] = min(place, first.get(path, place))
    return [(first[path], path, offset, place) for place, path, offset in found]


def _texts(part: FileColumns, name: str) -> list[bytes | None]:
    data, starts, sizes = part.texts(name)
    ends: npt.NDArray[np.int64] = starts + sizes
    return [
        None if end < start else bytes(data[start:end])
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def _comparable(value: Any) -> tuple[Any, ...]:
    """A key of a partition value: null is first, NaN last."""
    if value is None:
        return (0,)
    return (1, value) if value == value else (2,)
