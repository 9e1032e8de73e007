"""A task: a data file with the deletes that apply to it, whatever the format of its table.

Attributes have the names of Iceberg's manifests. Each format has classes of its own with these attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.rows.shared_deletes import NO_DELETES, DeleteFiles


class StoredFile(Protocol):
    """A file of rows."""

    @property
    def file_path(self) -> str: ...
    @property
    def file_format(self) -> str: ...
    @property
    def file_size_in_bytes(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def key_metadata(self) -> bytes | None: ...
    @property
    def lower_bounds(self) -> dict[int, bytes] | None: ...
    @property
    def upper_bounds(self) -> dict[int, bytes] | None: ...


class DataFile(StoredFile, Protocol):
    """A data file; `partition` has the values of the partition spec `spec_id`, without logical types."""

    @property
    def spec_id(self) -> int: ...
    @property
    def partition(self) -> tuple[Any, ...]: ...
    @property
    def first_row_id(self) -> int | None: ...
    @property
    def file_sequence_number(self) -> int | None: ...
    @property
    def split_offsets(self) -> list[int] | None: ...


class DeleteFile(StoredFile, Protocol):
    """A file of position deletes or of equality deletes."""

    @property
    def equality_ids(self) -> list[int] | None: ...
    @property
    def referenced_data_file(self) -> str | None: ...


class Vector(Protocol):
    """A deletion vector: a range of a file, and its cardinality."""

    @property
    def file_path(self) -> str: ...
    @property
    def content_offset(self) -> int | None: ...
    @property
    def content_size_in_bytes(self) -> int | None: ...
    @property
    def record_count(self) -> int: ...


File = TypeVar("File", bound=DataFile, covariant=True)
Blob = TypeVar("Blob", bound=Vector, covariant=True)
Other = TypeVar("Other", bound=DeleteFile, covariant=True)


@dataclass(slots=True)
class TaskOf(Generic[File, Blob, Other]):
    """A data file and the deletes that apply to it.

    Attributes:
        data: the data file.
        vector: its deletion vector, if it has one.
        position_deletes: the position-delete files; none if there is a vector, which supersedes them.
        equality_deletes: the equality-delete files.
        chosen: the positions of the only rows that are read; the task then has no deletes. None: all live rows.
        candidates: the positions of the rows that may match the plan's filter or keys, deleted rows included.
            None: any row may match.
        candidates_match: whether each of the candidates matches, unless it is deleted.
        candidate_keys: the key of each candidate, in their order, if an index has it and their row ids follow from
            the manifest: nothing else of them is then needed to replace them. The keys have one column.
        candidate_pages: where the pages of some column chunks are, if an index says it; see `Pages.known`.
    """

    data: File
    vector: Blob | None = None
    position_deletes: DeleteFiles = NO_DELETES
    equality_deletes: DeleteFiles = NO_DELETES
    chosen: PositionBitmap | None = None
    candidates: PositionBitmap | None = None
    candidates_match: bool = False
    candidate_keys: pa.Array | None = None
    candidate_pages: Sequence[Sequence[int]] = ()


Task: TypeAlias = TaskOf[DataFile, Vector, DeleteFile]
