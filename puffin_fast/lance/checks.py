"""Checks the deletion files of a Lance dataset and its data files; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from puffin_fast._io import open_source
from puffin_fast._run.threads import check_threads, on_threads
from puffin_fast.errors import PuffinFastError
from puffin_fast.lance.dataset import LanceFile, data_files
from puffin_fast.lance.deletions import errors_of_pylance, fragments_of, opened, vector_of
from puffin_fast.puffin.vectors import Problem
from puffin_fast.rows.findings import Findings, Level, check_level, unchecked_at


def verify(dataset: Any, *, level: Level = "files", threads: int | None = None) -> Findings[Problem]:
    """Reads and checks all deletion files of a dataset, and its data files.

    The checks: each deletion file exists, is valid, and has the number of rows of the manifest and offsets below the
    row count of its fragment; each data file exists and has the size that the manifest states.

    Args:
        dataset: a dataset of pylance, or its URI.
        level: "files" also opens the data files, "metadata" does not, "rows" also decodes all live rows through
            pylance.
        threads: number of files opened at a time; the number of processors by default.

    Returns:
        The problems, those of deletion files first; a list that is empty if there are none. Its ``unchecked`` says what
        was not checked.

    Raises:
        NotFoundError, CorruptDataError, UnsupportedError: the manifest cannot be read.
        InvalidInputError: `level` has another value.

    Examples:
        >>> list(pf.lance.verify(dataset))  # no finding
        []
    """
    check_level(level)
    check_threads(threads)
    dataset = opened(dataset)
    uri = str(dataset.uri)
    problems: list[Problem] = []
    fragments = fragments_of(dataset)
    for fragment in fragments:
        try:
            vector_of(dataset, fragment)
        except PuffinFastError as error:
            problems.append(Problem(getattr(error, "path", None) or uri, None, None, str(error)))
    files = data_files(dataset)
    unchecked = unchecked_at(level)
    if level != "metadata":
        for found in on_threads(
            lambda file: list(_of_file(file)), files, threads, label="checking data files"
        ):
            problems += found
        if level == "files":
            unchecked.insert(0, "row counts of the data files")
    if level == "rows" and not problems:
        for fragment in fragments:
            try:
                with errors_of_pylance(dataset.uri):
                    for _ in fragment.to_batches():
                        pass
            except PuffinFastError as error:
                problems.append(Problem(uri, None, None, f"fragment {fragment.fragment_id}: {error}"))
    return Findings(problems, level=level, data_files=len(files), unchecked=unchecked)


def _of_file(file: LanceFile) -> Iterator[Problem]:
    try:
        with open_source(file.location) as source:
            if file.n_bytes not in (None, source.size):
                message = f"size: expected {file.n_bytes} (manifest), found {source.size}"
                yield Problem(file.location, None, file.location, message)
    except PuffinFastError as error:
        yield Problem(file.location, None, file.location, str(error))
