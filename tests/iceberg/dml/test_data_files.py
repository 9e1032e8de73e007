"""Bounds of texts and bytes that are cut in manifests: at least the greatest value, and valid text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.expressions import GreaterThanOrEqual

from puffin_fast.iceberg import (
    append,
    create_table,
    overwrite,
    rewrite_data_files,
    scan,
    update,
    upsert,
    verify,
)
from puffin_fast.iceberg.dml.data_files import _upper_bound
from tests.kit.cases import each

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

LAST, HIGHEST = "\ud7ff", "\U0010ffff"
"""The last character before the surrogates, and the last of all."""

TEXTS = {
    "each character is the last before the surrogates": LAST * 20,
    "the cut one is": "a" * 15 + LAST + "b",
    "the cut one is, or the highest after it": "a" * 3 + LAST + HIGHEST * 20,
    "the cut one is the highest": "é" * 15 + HIGHEST + "b",
    "the last after the surrogates": "\uffff" * 20,
    "no character is higher": HIGHEST * 20,
    "not cut": LAST * 16,
}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("raw", pa.binary()),
        ("in", pa.struct([("s", pa.string()), ("l", pa.list_(pa.string()))])),
        ("m", pa.map_(pa.string(), pa.string())),
    ]
)


@each("length", [1, 4, 16])
@each("text", [*TEXTS.values(), "", "a", "a" * 40], ids=ascii)
def test_an_upper_bound_is_the_least_text_that_is_not_below(text: str, length: int) -> None:
    bound = _upper_bound(text, length)
    if bound is None:
        assert set(text[:length]) == {HIGHEST}
        return
    assert text.encode() <= bound.encode()
    assert len(bound) <= length
    assert bound == text or text[: len(bound) - 1] == bound[:-1]
    assert _upper_bound(text, None) == text


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("mode", ["truncate(16)", "truncate(4)", "full"])
def test_every_text_is_written_by_every_verb_and_found_by_its_bounds(
    shared_catalog: SqlCatalog, namespace: str, text: str, mode: str
) -> None:
    properties = {"write.metadata.metrics.default": mode}
    table = create_table(shared_catalog, f"{namespace}.t", SCHEMA, properties=properties)

    def rows(id: int, text: str) -> pa.Table:
        raw = text.encode() if text != HIGHEST * 20 else b"\xff" * 40
        row = {"id": id, "s": text, "raw": raw, "in": {"s": text, "l": [text]}, "m": [(text, text)]}
        return pa.Table.from_pylist([row], SCHEMA)

    append(table, rows(1, text))
    append(table, rows(2, "x"))
    update(table, "id = 2", {"s": text})
    upsert(table, rows(3, text), "id")
    overwrite(table, rows(4, text), "id = 3")
    for _ in range(2):
        assert scan(table, GreaterThanOrEqual("s", text)).count() == 3
        assert scan(table, GreaterThanOrEqual("in.s", text)).count() >= 2
        assert scan(table, GreaterThanOrEqual("raw", rows(1, text)["raw"][0].as_py())).count() >= 2
        rewrite_data_files(table, min_file_size=1 << 30, min_input_files=2)
    assert verify(table) == []
