"""Reads the deletion files of a Lance dataset, and deletes rows by fragment and offset through pylance's commit."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from puffin_fast._io import open_source
from puffin_fast._io.location import errors_of, folder_of
from puffin_fast._io.table_formats import other_format
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._process.outcome import note_outcome, until_commit
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg
from puffin_fast.dv import lance as codec
from puffin_fast.errors import (
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    MissingExtraError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)

VECTORS = pa.schema(
    [
        ("fragment", pa.int64()),
        ("blob", pa.large_binary()),
        ("cardinality", pa.int64()),
        ("n_rows", pa.int64()),
        ("deletion_file", pa.string()),
    ]
)
"""The schema of the result of `vectors`."""
_DETACHED = 1 << 63
"""Lance's bit for versions that do not belong to the history; a commit after one of them does not end."""
_RUST_PLACE = re.compile(r"(?:, | )/\S+\.rs:\d+:\d+")
"""The place in Lance's code that its messages end with."""
_NOT_FOUND = re.compile(r"Not found: |Dataset at path .* was not found")
_NOT_SUPPORTED = re.compile(r"Not supported: |Invalid user input: No object store provider")
_DAMAGED = re.compile(r"Invalid user input: |Encountered internal error|Not found: Fragment")
"""Errors of writers for values of the metadata."""


def vectors(dataset: Any) -> pa.Table:
    """Reads and checks all deletion files; returns the deleted rows of each fragment.

    A shallow clone or branch refers to deletion files of the dataset that it was made of; they are read there.

    Args:
        dataset: a dataset of pylance, at its version, or its URI; files are read from the local filesystem or by their
            URI.

    Returns:
        A row for each fragment with deletions: ``fragment``, ``blob`` (`deletion-vector-v1`, as the functions of
        `puffin_fast.arrow` accept it), ``cardinality``, ``n_rows`` (rows of the fragment, deleted ones included) and
        ``deletion_file``, its path below its dataset.

    Raises:
        CorruptDataError: the manifest or a deletion file is damaged, a deletion file has another number of rows than
            the manifest, or has an offset that is not less than the row count of the fragment.
        NotFoundError: the dataset or a deletion file does not exist.
        UnsupportedError: a deletion file is in another location than a dataset, or pylance cannot read the dataset.

    Examples:
        >>> dataset = pf.lance.delete_positions(dataset, {0: [0, 7]})
        >>> pf.lance.vectors(dataset)["cardinality"].to_pylist()
        [2]
    """
    dataset = opened(dataset)
    found = (vector_of(dataset, fragment) for fragment in fragments_of(dataset))
    rows = [row for row in found if row is not None]
    columns = list(zip(*rows, strict=True)) or [()] * len(VECTORS)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, VECTORS, strict=True)], schema=VECTORS
    )


def vector_of(dataset: Any, fragment: Any) -> tuple[int, bytes, int, int, str] | None:
    """The row of `vectors` for a fragment; None if it has no deletions. Raises as `vectors`."""
    with errors_of_pylance(dataset.uri):
        name = fragment.deletion_file()
        if name is None:
            return None
        number, n_rows, n_deleted = fragment.fragment_id, fragment.physical_rows, fragment.num_deletions
        base = fragment.metadata.deletion_file.base_id
    if n_rows > codec.MAX_POSITION + 1:
        raise CorruptDataError(
            f"rows of fragment {number}",
            path=str(dataset.uri),
            expected=f"at most {codec.MAX_POSITION + 1}",
            found=n_rows,
        )
    path = f"{root_of(dataset, base, f'the deletion file of fragment {number}')}/{name}"
    with open_source(path) as source:
        data = source.read_at(0, source.size)
    bitmap = codec.decode(data, cardinality=n_deleted, path=path)
    if bitmap and bitmap.max() >= n_rows:
        raise CorruptDataError(
            "deletion file",
            path=path,
            expected=f"offsets below {n_rows} (rows of fragment {number})",
            found=bitmap.max(),
        )
    return number, iceberg.encode(bitmap), len(bitmap), n_rows, name


def root_of(dataset: Any, number: int | None, what: str) -> str:
    """Returns the location of the dataset that has a file.

    Args:
        dataset: that refers to the file.
        number: the number of the location in its manifest; None: its own.
        what: the file is, for errors.

    Raises:
        CorruptDataError: the manifest has no location of this number.
        UnsupportedError: it is another location than a dataset.
    """
    if number is None:
        return str(dataset.uri).rstrip("/")
    with errors_of_pylance(dataset.uri):
        bases = dataset.base_paths()
    base = bases.get(number)
    if base is None:
        raise CorruptDataError(
            f"location of {what}", path=str(dataset.uri), expected=f"one of {sorted(bases)}", found=number
        )
    if not base.is_dataset_root:
        raise UnsupportedError(f"{dataset.uri}: {what} is in {base.path}")
    return str(base.path).rstrip("/")


@until_commit()
def delete_positions(dataset: Any, deletes: Mapping[int, Any], *, dry_run: bool = False) -> Any:
    """Deletes rows by fragment and offset, in one commit of pylance.

    Args:
        dataset: a dataset of pylance at its newest version, or its URI.
        deletes: maps fragment ids to offsets: a `PositionBitmap`, or an argument of `PositionBitmap.from_positions`.
        dry_run: check the fragments and offsets, write nothing.

    Returns:
        The dataset at its new version; the same dataset if there is nothing to delete, or in a dry run.

    Raises:
        NotFoundError: the dataset, a fragment or one of its files does not exist.
        CorruptDataError: the manifest or a deletion file is damaged.
        UnsupportedError: the version of the dataset is detached, or pylance cannot read the dataset.
        InvalidInputError: `deletes` does not map numbers, an offset is not less than the row count of its fragment, or
            the permission to write is missing.
        ConflictError: the dataset is not at its newest version, or another commit changed a fragment at the same time;
            it is unchanged. In the latter case, the written deletion file remains until pylance's cleanup.

    Examples:
        >>> dataset = pf.lance.delete_positions(dataset, {0: [0, 7]})
        >>> dataset.count_rows()
        98
    """
    dataset = opened(dataset)
    if not isinstance(deletes, Mapping):
        raise InvalidInputError(
            "deletes: expected a mapping of fragment ids to offsets, such as {0: [1, 2]}, found "
            f"{type(deletes).__name__}"
        )
    lance = _lance()
    fragments = fragments_of(dataset)
    by_number = {fragment.fragment_id: fragment for fragment in fragments}
    if len(by_number) < len(fragments):
        numbers = [fragment.fragment_id for fragment in fragments]
        raise CorruptDataError("fragments", path=str(dataset.uri), expected="each id once", found=numbers)
    if dataset.version >= _DETACHED:
        raise UnsupportedError(f"{dataset.uri}: version {dataset.version} is detached")
    with errors_of_pylance(dataset.uri):
        newest = dataset.latest_version
    if newest != dataset.version:
        raise ConflictError(
            f"{dataset.uri}: version {dataset.version} is outdated: expected the newest, {newest}: open the dataset "
            "without a version"
        )
    updated, removed = [], []
    for number, offsets in deletes.items():
        if not isinstance(number, int | np.integer):
            raise InvalidInputError(f"deletes: expected integers as fragment ids, found {number!r}")
        fragment = by_number.get(number)
        if fragment is None:
            raise NotFoundError(f"{dataset.uri}: no fragment {number}")
        bitmap = offsets if isinstance(offsets, PositionBitmap) else PositionBitmap.from_positions(offsets)
        if not bitmap:
            continue
        with errors_of_pylance(dataset.uri):
            n_rows = fragment.physical_rows
        if bitmap.max() >= n_rows:
            raise InvalidInputError(
                f"fragment {number}: expected offsets below {n_rows} (rows), found {bitmap.max()}"
            )
        if dry_run:
            continue
        with errors_of_pylance(dataset.uri):
            found = fragment.delete_rows(bitmap.to_numpy().tolist())
        if found is None:
            removed.append(number)
        else:
            updated.append(found)
    if not updated and not removed:
        return dataset
    operation = lance.LanceOperation.Delete(updated, removed, "offsets")
    try:
        with errors_of_pylance(dataset.uri, dataset.version):
            return lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    except BaseException as error:
        note_outcome(
            error,
            f"it is unknown whether the commit to {dataset.uri} happened; it did if the dataset has a version after "
            f"{dataset.version}",
        )
        raise


@contextmanager
def errors_of_pylance(uri: Any, version: int | None = None) -> Iterator[None]:
    """Converts errors that pylance raises to errors of this package, by their messages: most are ValueErrors.

    Storage errors whose message has an error number become that OSError first, see `errors_of`.
    """
    with errors_of(uri):
        try:
            yield
        except (ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            if is_from_outside(error):
                raise
            if isinstance(error, _lance("commit").CommitConflictError):
                raise ConflictError(f"{uri}: version {version} is outdated: {error}") from error
            message = _RUST_PLACE.sub("", str(error))
            if number := re.search(r"\(os error (\d+)\)", message):
                raise OSError(int(number[1]), message) from error
            if _NOT_FOUND.match(message):
                raise NotFoundError(f"{uri}: {message}") from error
            if _NOT_SUPPORTED.match(message):
                raise UnsupportedError(f"{uri}: {message}") from error
            if isinstance(error, OSError | RuntimeError) and not _DAMAGED.match(message):
                raise PuffinFastError(f"{uri}: pylance failed: {message}") from error
            if "Generic " in message or "HTTP error" in message:
                raise PuffinFastError(f"{uri}: the storage failed: {message}") from error
            raise CorruptDataError("metadata of a Lance dataset", path=str(uri), found=message) from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # a panic of Rust is not an Exception
                raise
            raise CorruptDataError("metadata of a Lance dataset", path=str(uri), found=error) from error


def opened(dataset: Any) -> Any:
    """The dataset of a URI; a dataset as it is."""
    if hasattr(dataset, "get_fragments"):
        return dataset
    if not isinstance(dataset, str | os.PathLike):
        raise InvalidInputError(f"dataset: expected pylance's or its URI, found {type(dataset).__name__}")
    lance = _lance()
    uri = folder_of(dataset)
    try:
        with errors_of_pylance(uri):
            return lance.dataset(uri)
    except NotFoundError as error:
        raise NotFoundError(f"{error}{other_format(uri)}") from error


def fragments_of(dataset: Any) -> list[Any]:
    """The fragments of a dataset."""
    with errors_of_pylance(dataset.uri):
        return list(dataset.get_fragments())


def _lance(module: str = "") -> Any:
    """pylance, or a module of it, which it does not always import itself."""
    try:
        return importlib.import_module(f"lance.{module}" if module else "lance")
    except ModuleNotFoundError as error:
        raise MissingExtraError("pylance", extra="lance") from error
