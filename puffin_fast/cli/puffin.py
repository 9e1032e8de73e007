"""``inspect`` of a Puffin file, and ``verify`` of one or of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from puffin_fast.cli import _common
from puffin_fast.dv import iceberg as vectors
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.puffin import BlobMetadata, PuffinReader

__all__ = ["inspect", "verify"]


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
    """Reads one blob and checks all that its type lets us check.

    Returns:
        ``n_bytes`` after decompression and, for a deletion vector, ``cardinality`` and ``containers``.
    """
    data = reader.read(blob)
    found: dict[str, Any] = {"n_bytes": len(data)}
    if blob.type == vectors.BLOB_TYPE:
        declared = _declared_cardinality(blob, path)
        bitmap = vectors.decode(data, cardinality=declared, path=path, offset=blob.offset)
        found["cardinality"] = len(bitmap)
        found["containers"] = bitmap.containers()._asdict()
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


@click.command()
@click.argument("file")
@_common.output_option
def inspect(file: str, output: str) -> None:
    """What a Puffin FILE holds: blobs, properties, containers, sizes.

    A damaged blob is shown with what is wrong with it; `verify` is the command that fails then.
    """
    with PuffinReader(file) as reader:
        blobs = []
        for index, blob in enumerate(reader.blobs):
            try:
                content: dict[str, Any] = _examine(reader, blob, file)
            except PuffinFastError as error:
                content = {"error": str(error)}
            blobs.append({**_describe(index, blob), "content": content})
        summary = {
            "file": file,
            "file-size-in-bytes": reader.file_size,
            "file-footer-size-in-bytes": reader.footer_size,
            "properties": dict(reader.metadata.properties),
        }
    if output == "json":
        _common.print_json({**summary, "blobs": blobs})
        return
    console = _common.console()
    console.print(_common.grid([summary]))
    if blobs:
        console.print(_common.grid(blobs))


@click.command()
@click.argument("target")
@click.option("--branch", help="Of a table: a branch or tag, instead of the current snapshot.")
@click.option("--snapshot-id", type=int, help="Of a table: a snapshot, instead of the current one.")
@_common.catalog_options
@_common.output_option
@click.pass_context
def verify(
    context: click.Context,
    /,
    target: str,
    branch: str | None,
    snapshot_id: int | None,
    output: str,
    **catalog: str | None,
) -> None:
    """Checks every deletion vector of TARGET, a Puffin file or a table (namespace.name).

    Of a file all blobs are read: lengths, magic, checksum, cardinality. Of a table every vector is held
    against manifest, footer and data file, and missing, duplicate, dangling, mismatching and superseded deletes
    are listed. What has a slash, ends in .puffin or is there as a file is a file.

    Exit code 1 when something is wrong.
    """
    if "/" in target or target.endswith(".puffin") or Path(target).exists():
        all_right = _verify_file(target, output)
    else:
        all_right = _verify_table(target, catalog, branch, snapshot_id, output)
    if not all_right:
        context.exit(1)


def _verify_file(file: str, output: str) -> bool:
    rows = []
    with PuffinReader(file) as reader:
        for index, blob in enumerate(reader.blobs):
            row: dict[str, Any] = {"blob": index, "type": blob.type, "offset": blob.offset}
            try:
                row["n_bytes"] = _examine(reader, blob, file)["n_bytes"]
                row["error"] = None
            except PuffinFastError as error:
                row["n_bytes"] = None
                row["error"] = str(error)
            rows.append(row)
    _common.show(rows, output, title=f"{file}: {len(rows)} blobs")
    return not any(row["error"] for row in rows)


def _verify_table(
    name: str,
    catalog: Mapping[str, str | None],
    branch: str | None,
    snapshot_id: int | None,
    output: str,
) -> bool:
    opened = _common.open_table(name, catalog)
    from puffin_fast import iceberg

    found = iceberg.verify(opened, branch=branch, snapshot_id=snapshot_id)
    _common.show([asdict(finding) for finding in found], output, title=f"{name}: {len(found)} findings")
    return not found
