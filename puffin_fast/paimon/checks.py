"""Checks the deletion vectors of a snapshot and its data files; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from puffin_fast._concurrency.threads import on_threads
from puffin_fast._io import Source, open_source
from puffin_fast._io.folder import files_below
from puffin_fast.dv import paimon as codec
from puffin_fast.errors import PuffinFastError
from puffin_fast.paimon.data_files import LiveFile, live_data_files
from puffin_fast.paimon.index_manifest import VectorsFile, read_record
from puffin_fast.paimon.snapshots import TableFiles
from puffin_fast.paimon.stored_vectors import vectors_files
from puffin_fast.parquet.arrow_file import ArrowFile
from puffin_fast.puffin.finding import DANGLING, MISMATCH, Finding, kind_of
from puffin_fast.rows.files.files import reading
from puffin_fast.rows.findings import Findings, Level, unchecked_at

_PARQUET = ".parquet"


def findings_of(
    table: Any, snapshot_id: int | None, level: Level, threads: int | None, filesystem: Any
) -> Findings:
    """`verify` with checked arguments."""
    files = TableFiles.of(table, filesystem)
    snapshot, path = files.snapshot(snapshot_id)
    live = live_data_files(files, snapshot, path)
    findings = list(_of_vectors(files, vectors_files(files, snapshot, path), live))
    unchecked = unchecked_at(level)
    if level != "metadata":
        stored = {info.path: info.n_bytes for info in files_below(files.root, filesystem=files.filesystem)}
        places = {"/".join(name.split("/")[-2:]): name for name in stored}

        def check(file: LiveFile) -> list[Finding]:
            name = places.get(file.place)
            where = file.external_path or f"{files.root}/{name or file.place}"
            return list(_of_file(file, where, files.filesystem, rows=level == "rows"))

        label = "decoding rows" if level == "rows" else "checking data files"
        for found in on_threads(check, live, threads, label=label):
            findings += found
        if others := sum(not file.name.endswith(_PARQUET) for file in live):
            unchecked.append(f"rows of {others:,} files that are not Parquet")
    return Findings(findings, level=level, data_files=len(live), unchecked=unchecked)


def _of_vectors(files: TableFiles, index: list[VectorsFile], live: list[LiveFile]) -> Iterator[Finding]:
    rows = {(file.partition, file.bucket, file.name): file.n_rows for file in live}
    for file in index:
        path = file.external_path or f"{files.root}/index/{file.name}"
        try:
            with open_source(path, filesystem=files.filesystem) as source:
                if source.size != file.n_bytes:
                    message = f"size: expected {file.n_bytes} (index manifest), found {source.size}"
                    yield Finding(MISMATCH, None, path, None, message)
                yield from _of_index(file, source, path, rows)
        except PuffinFastError as error:
            yield Finding(kind_of(error), None, path, None, str(error))


def _of_index(
    file: VectorsFile, source: Source, path: str, rows: dict[tuple[bytes, int, str], int]
) -> Iterator[Finding]:
    for one in file.ranges:
        n_rows = rows.get((file.partition, file.bucket, one.file_name))
        if n_rows is None:
            message = f"{one.file_name}: expected a live data file"
            yield Finding(DANGLING, one.file_name, path, one.offset, message)
        try:
            record = read_record(source, one.offset, one.length, path)
            bitmap = codec.decode(record, cardinality=one.cardinality, path=path, offset=one.offset)
        except PuffinFastError as error:
            yield Finding(kind_of(error), one.file_name, path, one.offset, str(error))
            continue
        if n_rows is not None and bitmap and bitmap.max() >= n_rows:
            message = f"{one.file_name}: expected positions below {n_rows} (rows), found {bitmap.max()}"
            yield Finding(MISMATCH, one.file_name, path, one.offset, message)


def _of_file(file: LiveFile, path: str, filesystem: Any, *, rows: bool) -> Iterator[Finding]:
    try:
        with open_source(path, filesystem=filesystem) as source:
            if source.size != file.n_bytes:
                message = f"size: expected {file.n_bytes} (manifest), found {source.size}"
                yield Finding(MISMATCH, path, path, None, message)
            if not file.name.endswith(_PARQUET):
                return
            with reading(path), ArrowFile(source.for_arrow(), path) as opened:
                n_rows = opened.metadata.num_rows
                if n_rows != file.n_rows:
                    message = f"rows: expected {file.n_rows} (manifest), found {n_rows}"
                    yield Finding(MISMATCH, path, path, None, message)
                if rows:
                    for _ in opened.iter_batches():
                        pass
    except PuffinFastError as error:
        yield Finding(kind_of(error), path, path, None, str(error))
