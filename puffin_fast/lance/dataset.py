"""What a Lance dataset has: its versions, fragments and data files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from puffin_fast._text import as_count
from puffin_fast.lance.deletions import errors_of_pylance, fragments_of, opened, root_of


@dataclass(frozen=True, slots=True)
class LanceFile:
    """A data file of a fragment.

    Attributes:
        path: relative to the dataset that has it.
        location: the path or URI.
        fragment: its number.
        n_rows: rows of the fragment, deleted ones included.
        deleted: rows of the fragment that are deleted.
        n_bytes: its size; None if the manifest does not state it.
    """

    path: str
    location: str
    fragment: int
    n_rows: int
    deleted: int
    n_bytes: int | None


def data_files(dataset: Any) -> list[LanceFile]:
    """The data files of the fragments of a dataset or of its newest version, by its URI."""
    dataset = opened(dataset)
    found = []
    for fragment in fragments_of(dataset):
        with errors_of_pylance(dataset.uri):
            number, n_rows, deleted = fragment.fragment_id, fragment.physical_rows, fragment.num_deletions
            files = [
                (one.path, getattr(one, "base_id", None), one.file_size_bytes)
                for one in fragment.data_files()
            ]
        for name, base, size in files:
            path = f"data/{name}"
            location = f"{root_of(dataset, base, f'a data file of fragment {number}')}/{path}"
            found.append(LanceFile(path, location, number, n_rows, deleted, size))
    return found


def describe(dataset: Any) -> dict[str, Any]:
    """The counts of a dataset, from its manifest."""
    dataset = opened(dataset)
    files = data_files(dataset)
    fragments = {file.fragment: file for file in files}
    return {
        "version": dataset.version,
        "storage version": dataset.data_storage_version,
        "records": sum(file.n_rows for file in fragments.values()),
        "fragments": len(fragments),
        "data files": len(files),
        "position deletes": sum(file.deleted for file in fragments.values()),
        "properties": dict(dataset.config()),
    }


def versions(dataset: Any) -> list[dict[str, Any]]:
    """The versions that are stored, with the total rows of each."""
    dataset = opened(dataset)
    with errors_of_pylance(dataset.uri):
        found = dataset.versions()
    return [
        {
            "timestamp_ms": int(one["timestamp"].timestamp() * 1000),
            "version": one["version"],
            "rows": as_count(one["metadata"].get("total_rows")),
            "deleted": as_count(one["metadata"].get("total_deletion_file_rows")),
        }
        for one in found
    ]
