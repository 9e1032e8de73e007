"""Bitmaps, codecs, Arrow functions, sketches and Puffin files raise no error of Python for an argument of any type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import Parameter, ismethod, signature
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import puffin_fast as pf
from puffin_fast.errors import InvalidInputError, PuffinFastError

if TYPE_CHECKING:
    from pathlib import Path

BITMAP = pf.PositionBitmap([1, 2])
BLOB = pf.dv.iceberg.encode(BITMAP)
SKETCH = pf.arrow.theta_sketch([1])
TEXT, SIZE = pf.dv.delta.encode_inline(BITMAP)
WRONG: tuple[Any, ...] = (
    None,
    1.5,
    True,
    "x",
    b"x",
    [None],
    ["x"],
    (1, 2),
    {},
    {"a": 1},
    object(),
    -1,
    1 << 70,
    int,
    pa.array([1.5]),
)

GIVEN: dict[str, Any] = {
    "array": [1], "bitmap": BITMAP, "bitmaps": [BITMAP], "blob": BLOB, "blobs": [BLOB], "cardinality": 2, "data": BLOB,
    "file_path": ["a"], "index": 1, "lists": [[1]], "mask": [True], "n_bytes": 9, "n_rows": 3, "others": [BLOB],
    "pos": [1], "position": 1, "positions": [1], "size_in_bytes": SIZE, "sketches": [SKETCH.to_bytes()],
    "source": "iceberg", "start": 1, "stop": 2, "target": "delta", "text": TEXT, "type": "t", "values": [1],
}  # fmt: skip
"""An argument of its type, by its name."""

TEXTS = {"path", "codec", "filesystem"}
"""Any object has a text for errors; the others: tests/arrow/test_arrow.py, tests/puffin/test_filesystems.py."""

CODECS = (pf.dv.iceberg, pf.dv.delta, pf.dv.paimon, pf.dv.lance, pf.dv.mumbling)


def calls(path: Path) -> Iterator[tuple[Callable[..., Any], dict[str, Any]]]:
    """Each function, with the arguments that are not as in `GIVEN`."""
    for module in CODECS:
        blob = module.encode(BITMAP)
        for name in (
            "encode",
            "decode",
            "version_of",
            "encode_inline",
            "decode_inline",
            "z85_encode",
            "z85_decode",
        ):
            if hasattr(module, name):
                yield getattr(module, name), {"blob": blob}
    yield pf.dv.convert, {}
    yield lambda data: [*pf.dv.delta.spans(data)], {"data": b"\1" + BLOB}
    for name in pf.arrow.__all__:
        yield getattr(pf.arrow, name), {"lists": [[BLOB]]} if name == "union" else {}
    yield pf.arrow.mask, {"blobs": BLOB}
    for owner in (BITMAP, SKETCH):
        own = {"data": owner.to_bytes(), "other": owner}
        for name in dir(owner):
            if not name.startswith("_") and ismethod(getattr(owner, name)):
                yield getattr(owner, name), own
    with pf.PuffinWriter(path) as writer:
        blob = writer.add(b"abc", type="t")
        yield writer.add, {}
        yield writer.add_stored, {"data": b"abc", "blob": blob}
    yield (
        lambda file_size, max_blob_bytes: pf.PuffinReader(
            path, file_size=file_size, max_blob_bytes=max_blob_bytes
        ).close(),
        {"file_size": path.stat().st_size, "max_blob_bytes": 1 << 20},
    )
    with pf.PuffinReader(path) as reader:
        for method in (reader.read, reader.read_many, reader.stored, reader.ranges_of):
            yield method, {"blob": 0, "blobs": [0]}
    yield pf.write_vectors, {"path": path, "vectors": {"a": BITMAP}, "overwrite": True}


def test_arguments_of_any_type_are_accepted_or_refused(tmp_path: Path) -> None:
    n_refused, failed = 0, []
    for function, own in calls(tmp_path / "t.puffin"):
        parameters = signature(function).parameters.values()
        several = any(one.kind == Parameter.VAR_POSITIONAL for one in parameters)
        given = {one.name: own.get(one.name, GIVEN.get(one.name, one.default)) for one in parameters}
        for name, wrong in product(given.keys() - TEXTS, WRONG):
            try:
                function(wrong) if several else function(**given | {name: wrong})
            except PuffinFastError:
                n_refused += 1
            except Exception as error:
                failed.append(f"{function!r}({name}={wrong!r}): {error!r}")
    assert not failed, "\n".join(failed)
    assert n_refused > 500


def test_errors_say_what_was_expected_and_found() -> None:
    for call, text in (
        (lambda: pf.arrow.mask(BLOB, None), "mask: rows: expected an integer, found None"),
        (lambda: BITMAP.rank("x"), "position: expected an integer, found 'x'"),  # type: ignore[arg-type]
        (lambda: pf.dv.iceberg.decode(BLOB, offset=1.5), "offset: expected an integer, found 1.5"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInputError, match=f"^{text}$"):
            call()
