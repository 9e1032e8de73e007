"""Deletion files of a Lance dataset, and rows deleted by fragment and offset through pylance's own commit."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from puffin_fast._runtime import open_source
from puffin_fast._runtime.location import errors_of
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg
from puffin_fast.dv import lance as codec
from puffin_fast.errors import (
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    MissingExtraError,
    NotFoundError,
)

__all__ = ["VECTORS", "delete_positions", "vectors"]

VECTORS = pa.schema(
    [
        ("fragment", pa.int64()),
        ("blob", pa.large_binary()),
        ("cardinality", pa.int64()),
        ("n_rows", pa.int64()),
        ("deletion_file", pa.string()),
    ]
)
"""What `vectors` gives."""


def vectors(dataset: Any) -> pa.Table:
    """The deleted rows of each fragment, every deletion file read and checked.

    Args:
        dataset: pylance's dataset, or its URI; files are read from the local filesystem or by their URI.

    Returns:
        A row for each fragment with deletions: ``fragment``, ``blob`` (`deletion-vector-v1`, as the functions of
        `puffin_fast.arrow` take it), ``cardinality``, ``n_rows`` (rows of the fragment, deleted ones included) and
        ``deletion_file``.

    Raises:
        CorruptDataError: a deletion file that is not what it should be, holds another number of rows, or an offset that
            the fragment does not have.
        NotFoundError: no such dataset, or a deletion file that no longer exists.
    """
    dataset = _opened(dataset)
    root = str(dataset.uri).rstrip("/")
    rows: list[tuple[Any, ...]] = []
    for fragment in dataset.get_fragments():
        name = fragment.deletion_file()
        if name is None:
            continue
        path = f"{root}/{name}"
        with open_source(path) as source:
            data = source.read_at(0, source.size)
        bitmap = codec.decode(data, cardinality=fragment.num_deletions, path=path)
        if bitmap and bitmap.max() >= fragment.physical_rows:
            raise CorruptDataError(
                "deletion file",
                path=path,
                expected=f"offsets below {fragment.physical_rows} (rows of fragment {fragment.fragment_id})",
                found=bitmap.max(),
            )
        rows.append((fragment.fragment_id, iceberg.encode(bitmap), len(bitmap), fragment.physical_rows, name))
    columns = list(zip(*rows, strict=True)) or [()] * len(VECTORS)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, VECTORS, strict=True)], schema=VECTORS
    )


def delete_positions(dataset: Any, deletes: Mapping[int, Any]) -> Any:
    """Deletes rows by fragment and offset, in one commit of pylance's.

    Args:
        dataset: pylance's dataset, or its URI.
        deletes: fragment id to offsets (a `PositionBitmap`, or what it is made of).

    Returns:
        The dataset at its new version; the same where there is nothing to delete.

    Raises:
        NotFoundError: no such dataset or fragment.
        InvalidInputError: an offset that the fragment does not have, or storage that must not be written.
        ConflictError: another commit changed a fragment meanwhile; the dataset is as it was. The deletion file that was
            written stays until pylance's cleanup.
    """
    dataset = _opened(dataset)
    lance = _lance()
    fragments = {fragment.fragment_id: fragment for fragment in dataset.get_fragments()}
    updated, removed = [], []
    for number, offsets in deletes.items():
        fragment = fragments.get(number)
        if fragment is None:
            raise NotFoundError(f"{dataset.uri}: no fragment {number}")
        bitmap = offsets if isinstance(offsets, PositionBitmap) else PositionBitmap.from_positions(offsets)
        if not bitmap:
            continue
        if bitmap.max() >= fragment.physical_rows:
            raise InvalidInputError(
                f"fragment {number}: offset {bitmap.max()}, but it has {fragment.physical_rows} rows"
            )
        with _writing(dataset.uri):
            found = fragment.delete_rows(bitmap.to_numpy().tolist())
        if found is None:
            removed.append(number)
        else:
            updated.append(found)
    if not updated and not removed:
        return dataset
    operation = lance.LanceOperation.Delete(updated, removed, "offsets")
    try:
        with _writing(dataset.uri):
            return lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
    except _lance("commit").CommitConflictError as error:
        raise ConflictError(f"{dataset.uri}: version {dataset.version} is outdated: {error}") from error


@contextmanager
def _writing(uri: str) -> Iterator[None]:
    """Raises what the storage said as errors of this package; pylance writes its number into the text."""
    with errors_of(uri):
        try:
            yield
        except OSError as error:
            number = re.search(r"\(os error (\d+)\)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), str(error)) from error


def _opened(dataset: Any) -> Any:
    if hasattr(dataset, "get_fragments"):
        return dataset
    if not isinstance(dataset, str | os.PathLike):
        raise InvalidInputError(f"dataset: expected pylance's or its URI, found {type(dataset).__name__}")
    try:
        return _lance().dataset(dataset)
    except (ValueError, FileNotFoundError) as error:  # pylance's for a dataset that is not there
        raise NotFoundError(f"{os.fspath(dataset)}: {error}") from error


def _lance(module: str = "") -> Any:
    """pylance, or a module of it, which it does not always import itself."""
    try:
        return importlib.import_module(f"lance.{module}" if module else "lance")
    except ModuleNotFoundError as error:
        raise MissingExtraError("pylance", extra="lance") from error
