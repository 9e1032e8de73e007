"""Opens data and delete files, and turns the errors of reading them into those of this package."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from puffin_fast._runtime import unbuffered
from puffin_fast._runtime.location import resolve
from puffin_fast.errors import (
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg.datafile.conversion import ProjectionError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from puffin_fast.iceberg.datafile.projection import FileSchema

__all__ = ["BATCH_ROWS", "FormatReader", "open_input", "reading"]

BATCH_ROWS = 1 << 17
"""Default maximum number of rows of a batch."""


class FormatReader(Protocol):
    """An open file of one format. Not safe for use by several threads at once.

    Attributes:
        schema: its columns as Arrow reads them, with Iceberg's field ids in the metadata `PARQUET:field_id`.
        n_rows: number of rows of the file.
        group_rows: number of rows of each row group, in the order of the file.
    """

    schema: pa.Schema
    n_rows: int
    group_rows: tuple[int, ...]

    def groups_that_may_match(
        self, known: FileSchema, schema: Schema, field_ids: Iterable[int], may_match: Callable[[Any], bool]
    ) -> Iterable[int]:
        """Returns the numbers of the row groups whose statistics do not exclude a match."""
        ...

    def batches(
        self, group: int, columns: Sequence[str], batch_rows: int, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a row group in order; `columns` are names of top-level columns, at least one."""
        ...

    def reopen(self) -> FormatReader:
        """Opens the same file again, for another thread."""
        ...


def open_input(io: FileIO, location: str) -> Any:
    """Opens a file of a table for Arrow. Reads are not buffered: exactly the requested ranges are read.

    Raises:
        InvalidInputError: the path is not a regular file.
    """
    kind, _, path = resolve(location, io)
    if kind != "local":
        return unbuffered(io.new_input(location).open())
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would block until it has a writer
        raise InvalidInputError(f"{location}: expected a regular file")
    return pa.OSFile(path)


@contextmanager
def reading(path: str, format: str = "Parquet") -> Iterator[None]:
    """Turns errors raised while a data or delete file is read into those of this package.

    Args:
        path: of the file.
        format: of the file, for messages.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: the file's bytes do not agree with its format or with the table's schema.
        UnsupportedError: Arrow cannot read the contents of the file.
        PuffinFastError: the operating system reported an error.
    """
    try:
        yield
    except (PuffinFastError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: no such file, but the table lists it") from error
    except (pa.ArrowNotImplementedError, pa.ArrowCapacityError) as error:
        raise UnsupportedError(f"{path}: PyArrow {pa.__version__} cannot read this: {error}") from error
    except pa.ArrowInvalid as error:
        raise CorruptDataError(f"{format} file: {error}", path=path) from error
    except ProjectionError as error:
        raise CorruptDataError(str(error), path=path) from error
    except OSError as error:
        if error.errno is not None:
            raise PuffinFastError(f"{path}: could not be read: {error}") from error
        raise CorruptDataError(f"{format} file: {error}", path=path) from error
    except (pa.ArrowException, LookupError, ValueError, ArithmeticError, struct.error) as error:
        raise CorruptDataError(f"{format} file: {error!r}", path=path) from error
