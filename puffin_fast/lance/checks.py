"""Checks the deletion files of a Lance dataset and its data files; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from puffin_fast._concurrency.threads import on_threads
from puffin_fast._io import open_source
from puffin_fast.errors import PuffinFastError
from puffin_fast.lance.dataset import LanceFile, data_files
from puffin_fast.lance.deletions import errors_of_pylance, fragments_of, opened, vector_of
from puffin_fast.puffin.finding import MISMATCH, Finding, kind_of
from puffin_fast.rows.findings import Findings, Level, unchecked_at


def findings_of(dataset: Any, level: Level, threads: int | None) -> Findings:
    """`verify` with checked arguments."""
    dataset = opened(dataset)
    uri = str(dataset.uri)
    findings: list[Finding] = []
    fragments = fragments_of(dataset)
    for fragment in fragments:
        try:
            vector_of(dataset, fragment)
        except PuffinFastError as error:
            path = getattr(error, "path", None) or uri
            findings.append(Finding(kind_of(error), None, path, None, str(error)))
    files = data_files(dataset)
    unchecked = unchecked_at(level)
    if level != "metadata":
        for found in on_threads(
            lambda file: list(_of_file(file)), files, threads, label="checking data files"
        ):
            findings += found
        if level == "files":
            unchecked.insert(0, "row counts of the data files")
    if level == "rows" and not findings:
        for fragment in fragments:
            try:
                with errors_of_pylance(dataset.uri):
                    for _ in fragment.to_batches():
                        pass
            except PuffinFastError as error:
                message = f"fragment {fragment.fragment_id}: {error}"
                findings.append(Finding(kind_of(error), None, uri, None, message))
    return Findings(findings, level=level, data_files=len(files), unchecked=unchecked)


def _of_file(file: LanceFile) -> Iterator[Finding]:
    try:
        with open_source(file.location) as source:
            if file.n_bytes not in (None, source.size):
                message = f"size: expected {file.n_bytes} (manifest), found {source.size}"
                yield Finding(MISMATCH, file.location, file.location, None, message)
    except PuffinFastError as error:
        yield Finding(kind_of(error), file.location, file.location, None, str(error))
