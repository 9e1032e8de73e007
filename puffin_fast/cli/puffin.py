"""The commands ``inspect`` (a file of deletion vectors) and ``verify`` (a file or a table)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from puffin_fast._io.table_formats import METADATA_FILE
from puffin_fast._text import counted
from puffin_fast.cli import _options
from puffin_fast.cli._catalog import open_table
from puffin_fast.cli._common import Answer, answers, fields_grid, grid, rows_answer, without_zeros
from puffin_fast.cli._completed import CATALOG, complete_table
from puffin_fast.cli._paths import is_path, open_path, verb
from puffin_fast.cli._records import DeletionVectorFile, open_vectors
from puffin_fast.dv import iceberg as vectors
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.puffin import BlobMetadata, PuffinReader
from puffin_fast.puffin.finding import CORRUPT, Finding
from puffin_fast.puffin.vectors import check_vectors
from puffin_fast.rows.findings import Level, sentence
from puffin_fast.theta import BLOB_TYPE as THETA_BLOB_TYPE
from puffin_fast.theta import ThetaSketch


def _declared_cardinality(blob: BlobMetadata, path: str) -> int | None:
    declared = blob.properties.get("cardinality")
    if declared is None:
        return None
    try:
        return int(declared)
    except ValueError:
        raise CorruptDataError(
            "blob property cardinality",
            path=path,
            offset=blob.offset,
            expected="a number",
            found=repr(declared),
        ) from None


def _examine(reader: PuffinReader, blob: BlobMetadata, path: str) -> dict[str, Any]:
    """Reads one blob and makes all checks that its type allows.

    Returns:
        ``n_bytes`` after decompression; for a deletion vector also ``cardinality`` and ``containers``, for a theta
        sketch ``estimate`` and ``theta``.
    """
    data = reader.read(blob)
    found: dict[str, Any] = {"n_bytes": len(data)}
    if blob.type == vectors.BLOB_TYPE:
        declared = _declared_cardinality(blob, path)
        bitmap = vectors.decode(data, cardinality=declared, path=path, offset=blob.offset)
        found["cardinality"] = len(bitmap)
        found["containers"] = bitmap.containers()._asdict()
    elif blob.type == THETA_BLOB_TYPE:
        sketch = ThetaSketch.from_bytes(data, path=f"{path}: offset {blob.offset}")
        found |= {"estimate": sketch.estimate, "theta": sketch.theta}
    return found


def _describe(index: int, blob: BlobMetadata) -> dict[str, Any]:
    return {
        "blob": index,
        "type": blob.type,
        "offset": blob.offset,
        "length": blob.length,
        "compression-codec": blob.compression_codec,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "properties": dict(blob.properties),
    }


def _shown(blobs: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The blobs as a table with a line for each: what is in all of them, and the entries of mappings as columns.

    Left out are lengths that are given twice, and the fields and snapshots of vectors, which are constants.
    """
    rows = [_flat(blob) for blob in blobs]
    names = dict.fromkeys(name for row in rows for name in row)
    constant: dict[str, list[Any]] = {
        "fields": [[vectors.ROW_POSITION_FIELD_ID]],
        "snapshot-id": [-1],
        "sequence-number": [-1],
    }
    for name, values in constant.items():
        if all(row.get(name) in values for row in rows):
            names.pop(name, None)
    return grid(without_zeros([{name: row.get(name) for name in names} for row in rows]), one_line=True)


def _flat(blob: Mapping[str, Any]) -> dict[str, Any]:
    row = dict(blob)
    content, properties = dict(row.pop("content")), dict(row.pop("properties", {}))
    if content.get("n_bytes") == row["length"]:
        del content["n_bytes"]
    if containers := content.pop("containers", None):
        content["containers"] = ", ".join(f"{count} {kind}" for kind, count in containers.items() if count)
    return {**row, **properties, **content}


@click.command()
@answers
@click.argument("file")
def inspect(file: str) -> Answer:
    """Prints the content of a FILE of deletion vectors: blobs, properties, containers, sizes.

    FILE is a Puffin file, a .bin file of Delta, an index file of Paimon, or a deletion file of Lance (.arrow, .bin).
    For a damaged blob, the error is printed, and the exit code is 0 (of `verify`: 1).

    Example: puffin-fast inspect deletes.puffin --output json
    """
    vectors = open_vectors(file)
    if vectors is not None:
        return _inspect_vectors(vectors)
    with PuffinReader(file) as reader:
        blobs = []
        for index, blob in enumerate(reader.blobs):
            try:
                content: dict[str, Any] = _examine(reader, blob, file)
            except PuffinFastError as error:
                content = {"error": str(error)}
            blobs.append({**_describe(index, blob), "content": content})
        summary: dict[str, Any] = {
            "file": file,
            "file-size-in-bytes": reader.file_size,
            "file-footer-size-in-bytes": reader.footer_size,
            "properties": dict(reader.metadata.properties),
        }
    about = {key: value for key, value in summary.items() if key not in ("file", "properties")}
    text = [
        fields_grid(file, {**about, **summary["properties"]}),
        _shown(blobs) if blobs else f"{file}: no blobs",
    ]
    return Answer({**summary, "blobs": blobs}, text)


def _inspect_vectors(file: DeletionVectorFile) -> Answer:
    summary = {"file": file.path, "file-size-in-bytes": len(file.data), "format": file.format}
    blobs = [{"blob": index, **vector} for index, vector in enumerate(file.vectors())]
    about = {key: value for key, value in summary.items() if key != "file"}
    text = [
        fields_grid(file.path, about),
        _shown(blobs) if blobs else f"{file.path}: no deletion vectors",
    ]
    return Answer({**summary, "blobs": blobs}, text)


@click.command()
@answers
@click.argument("target", shell_complete=complete_table)
@_options.snapshot
@click.option(
    "--level",
    type=click.Choice(["metadata", "files", "rows"]),
    help="Also checks that each live data file exists, and its size and row count (files, the default), or decodes "
    "all rows (rows); metadata opens no data file.",
)
@_options.threads
@_options.catalog
def verify(target: str, level: Level | None, **options: Any) -> Answer:
    """Checks every deletion vector of TARGET: a file, or a table (namespace.name, or the path of its folder).

    For a Puffin file, the checks are those of `puffin_fast.puffin.vectors.check_vectors`. For a file of another
    format that `inspect` reads, every vector is decoded. In an Iceberg table, every vector is compared with the
    manifest, the footer and the data file; missing, duplicate, dangling, mismatching and superseded deletes are
    listed. TARGET is a file if it ends in .puffin or exists as a file.

    The exit code is 1 if an error is found. A stale number in the metadata is listed, but is not an error.

    Example: puffin-fast verify shop.orders --catalog prod
    """
    catalog = {name: options.pop(name) for name in CATALOG}
    if _is_file(target):
        for name, value in {"threads": options["threads"], "level": level}.items():
            if value is not None:
                raise click.UsageError(f"--{name}: expected a table, found a file")
        return _verify_file(target)
    table = open_path(target) if is_path(target) else open_table(target, catalog, to_read=True)
    done = verb(table, "verify")(level=level or "files", **options)
    found = [asdict(finding) for finding in done]
    unchecked = ", ".join(done.unchecked).replace("level 'rows'", "--level rows")
    rest = f"; not checked: {unchecked}" if unchecked else ""
    title = f"{target}: {counted(len(found), 'finding')}{rest}"
    failed = any(row["kind"] != "stale" for row in found)
    shown = [{"kind": finding.kind, "finding": sentence(finding)} for finding in done]
    text = grid(shown, title=title) if found else f"{target}: no errors found{rest}"
    return Answer(found, [text], failed)


def _is_file(target: str) -> bool:
    """Whether a target is a file. True also for a missing .puffin file, so that the error names the file."""
    if METADATA_FILE in target:
        return False
    if target.endswith(".puffin") or Path(target).is_file():
        return True
    if not is_path(target) or Path(target).is_dir():
        return False
    return "://" not in target or "." in target.rpartition("/")[2]


def _verify_file(file: str) -> Answer:
    vectors = open_vectors(file)
    if vectors is None:
        rows = _verified_blobs(file)
    else:
        rows = [
            {
                "blob": index,
                "type": vector["type"],
                "offset": vector["offset"],
                "n_bytes": vector["length"],
                "kind": CORRUPT if "error" in vector["content"] else None,
                "error": vector["content"].get("error"),
            }
            for index, vector in enumerate(vectors.vectors())
        ]
    wrong = sum(row["error"] is not None for row in rows)
    title = f"{file}: {counted(len(rows), 'blob')}, {wrong or 'nothing'} wrong"
    return rows_answer(rows, title=title, nothing=f"{file}: no blobs, no errors found", failed=wrong > 0)


def _verified_blobs(file: str) -> list[dict[str, Any]]:
    with PuffinReader(file) as reader:
        blobs = reader.blobs
    found: dict[int | None, list[Finding]] = defaultdict(list)
    for finding in check_vectors(file):
        found[finding.offset].append(finding)
    return [
        {
            "blob": index,
            "type": blob.type,
            "offset": blob.offset,
            "n_bytes": blob.length,
            "kind": found[blob.offset][0].kind if found[blob.offset] else None,
            "error": "; ".join(finding.message for finding in found[blob.offset]) or None,
        }
        for index, blob in enumerate(blobs)
    ]
