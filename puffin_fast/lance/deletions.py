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
    UnsupportedError,
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
"""The schema of the result of `vectors`."""


def vectors(dataset: Any) -> pa.Table:
    """Reads and checks all deletion files; returns the deleted rows of each fragment.

    A shallow clone or branch refers to deletion files of the dataset that it was made of; they are read there.

    Args:
        dataset: a dataset of pylance, or its URI; files are read from the local filesystem or by their URI.

    Returns:
        A row for each fragment with deletions: ``fragment``, ``blob`` (`deletion-vector-v1`, as the functions of
        `puffin_fast.arrow` accept it), ``cardinality``, ``n_rows`` (rows of the fragment, deleted ones included) and
        ``deletion_file``, its path below its dataset.

    Raises:
        CorruptDataError: a deletion file is damaged, has another number of rows than the manifest, or has an offset
            that is not less than the row count of the fragment.
        NotFoundError: the dataset or a deletion file does not exist.
        UnsupportedError: a deletion file is in another location than a dataset.
    """
    dataset = _opened(dataset)
    rows: list[tuple[Any, ...]] = []
    for fragment in dataset.get_fragments():
        name = fragment.deletion_file()
        if name is None:
            continue
        path = f"{_root_of(dataset, fragment)}/{name}"
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


def _root_of(dataset: Any, fragment: Any) -> str:
    """Returns the location of the dataset that a fragment's deletion file is in.

    Raises:
        UnsupportedError: it is in another location than a dataset.
    """
    number = fragment.metadata.deletion_file.base_id
    if number is None:
        return str(dataset.uri).rstrip("/")
    base = dataset.base_paths()[number]
    if not base.is_dataset_root:
        raise UnsupportedError(
            f"{dataset.uri}: the deletion file of fragment {fragment.fragment_id} is in {base.path}"
        )
    return str(base.path).rstrip("/")


def delete_positions(dataset: Any, deletes: Mapping[int, Any], *, dry_run: bool = False) -> Any:
    """Deletes rows by fragment and offset, in one commit of pylance.

    Args:
        dataset: a dataset of pylance, or its URI.
        deletes: maps fragment ids to offsets: a `PositionBitmap`, or an argument of `PositionBitmap.from_positions`.
        dry_run: check the fragments and offsets, write nothing.

    Returns:
        The dataset at its new version; the same dataset if there is nothing to delete, or in a dry run.

    Raises:
        NotFoundError: the dataset or a fragment does not exist.
        InvalidInputError: `deletes` does not map numbers, an offset is not less than the row count of its fragment, or
            the permission to write is missing.
        ConflictError: another commit changed a fragment; the dataset is unchanged. The written deletion file remains
            until pylance's cleanup.
    """
    dataset = _opened(dataset)
    if not isinstance(deletes, Mapping):
        raise InvalidInputError(
            f"deletes: expected a mapping of fragment ids, found {type(deletes).__name__}"
        )
    lance = _lance()
    fragments = {fragment.fragment_id: fragment for fragment in dataset.get_fragments()}
    updated, removed = [], []
    for number, offsets in deletes.items():
        if not isinstance(number, int | np.integer):
            raise InvalidInputError(f"deletes: expected integers as fragment ids, found {number!r}")
        fragment = fragments.get(number)
        if fragment is None:
            raise NotFoundError(f"{dataset.uri}: no fragment {number}")
        bitmap = offsets if isinstance(offsets, PositionBitmap) else PositionBitmap.from_positions(offsets)
        if not bitmap:
            continue
        if bitmap.max() >= fragment.physical_rows:
            raise InvalidInputError(
                f"fragment {number}: expected offsets below {fragment.physical_rows} (rows), found {bitmap.max()}"
            )
        if dry_run:
            continue
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
            return lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    except _lance("commit").CommitConflictError as error:
        raise ConflictError(f"{dataset.uri}: version {dataset.version} is outdated: {error}") from error


@contextmanager
def _writing(uri: str) -> Iterator[None]:
    """Converts errors of the storage to errors of this package; pylance writes the error number into the message."""
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
    except (ValueError, FileNotFoundError) as error:  # pylance's exception for a missing dataset
        raise NotFoundError(f"{os.fspath(dataset)}: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, which is no Exception
            raise
        raise CorruptDataError("metadata of a Lance dataset", path=os.fspath(dataset), found=error) from error


def _lance(module: str = "") -> Any:
    """pylance, or a module of it, which it does not always import itself."""
    try:
        return importlib.import_module(f"lance.{module}" if module else "lance")
    except ModuleNotFoundError as error:
        raise MissingExtraError("pylance", extra="lance") from error
