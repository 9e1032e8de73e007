"""Variants that cannot be decoded are not written."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta, errors, iceberg
from puffin_fast.rows.files.conversion import ProjectionError
from puffin_fast.rows.match.variants import check_variants
from tests.conftest import require_module

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog

STORED = pa.struct([pa.field(name, pa.large_binary(), False) for name in ("metadata", "value")])
NULL = {"metadata": b"\1\0\0", "value": b"\0"}


def value(choose: random.Random, depth: int) -> Any:
    if depth == 0 or choose.random() < 0.4:
        return choose.choice([None, True, 1, -300, 1 << 40, 1.5, "a", "b" * 80, 12345678901234567890, ""])
    n = choose.choice([0, 1, 3, 300 if depth == 2 else 4])
    if choose.random() < 0.5:
        return [value(choose, depth - 1) for _ in range(n)]
    return {f"{choose.randrange(1000)}": value(choose, depth - 1) for _ in range(n)}


def wrong_of(variants: list[Any]) -> str | None:
    try:
        check_variants(pa.array([None, *variants], STORED)[1:], "v")
    except ProjectionError as error:
        return str(error)
    return None


def test_what_spark_encodes_is_accepted_and_each_part_of_it_refused() -> None:
    kind = require_module("pyspark.sql.types").VariantVal
    choose, many = random.Random(5), []
    for _ in range(40):
        found = kind.parseJson(json.dumps(value(choose, 3)))
        whole = {"metadata": bytes(found.metadata), "value": bytes(found.value)}
        many += [whole, None]
        for part in ("metadata", "value"):
            for n_bytes in {0, 1, *choose.sample(range(len(whole[part])), min(len(whole[part]), 20))}:
                cut = whole | {part: whole[part][:n_bytes]}
                if n_bytes < len(whole[part]):
                    said = f"v: variant 2: expected a {part} that can be decoded, found {n_bytes} bytes"
                    assert wrong_of([NULL, None, cut]) == said
    assert wrong_of(many) is None


@pytest.mark.parametrize(
    ("metadata", "value"),
    [
        (b"\2\0\0", b"\0"),  # another version
        (b"\1\0\0", b"\x54"),  # a type that does not exist
        (b"\1\0\0", b"\2\1\0\0\1\0"),  # a field without a name
        (b"\1\0\0", b"\3\1\0\2\3\2\0\0"),  # an inner array that is longer than the outer one
        (b"\1\0\0", b"\3\2\0\0\5\3\2\0\0\5" + b"\3\2\0\0\1"),  # arrays in arrays, more than there are bytes
    ],
)
def test_other_bytes_are_refused(metadata: bytes, value: bytes) -> None:
    assert wrong_of([NULL, {"metadata": metadata, "value": value}]) is not None


def test_nothing_is_written(shared_catalog: SqlCatalog, namespace: str, tmp_path: Path) -> None:
    columns = {"id": "long", "v": "variant"}
    with pytest.warns(errors.EngineSupportWarning):
        table = iceberg.create_table(shared_catalog, f"{namespace}.t", columns)
    with pytest.warns(errors.EngineSupportWarning):
        delta.create_table(tmp_path, columns)
    for module, place in ((iceberg, table), (delta, tmp_path)):
        for verb in (module.append, module.upsert):
            given = {"id": [1], "v": pa.array([NULL | {"value": b"\xff"}], STORED)}
            keys = {} if verb is module.append else {"join_cols": ["id"]}
            with pytest.raises(errors.InvalidInputError, match=r"column v: .*variant 0"):
                verb(place, pa.table(given), **keys)
        module.append(place, pa.table({"id": [1], "v": pa.array([NULL], STORED)}))
