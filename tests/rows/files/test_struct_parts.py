"""Fields of structs that are read alone give the rows of the whole structs, for any evolution of the schema."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from puffin_fast.columns.plain_types import plain
from puffin_fast.parquet import column_pages
from puffin_fast.rows.files.parquet import ParquetReader
from puffin_fast.rows.files.projection import FileSchema, Projection
from tests.kit.arrays import random_array
from tests.kit.seeds import seeds

N = 3_000
PRIMITIVES = (IntegerType(), LongType(), FloatType(), DoubleType(), StringType())
WIDER = {IntegerType(): LongType(), FloatType(): DoubleType()}
ARROW = {
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    StringType(): pa.string(),
}


class Made:
    """A random type of a file, and what became of it in the table."""

    def __init__(self, seed: int) -> None:
        self.choose, self.ids = random.Random(seed), itertools.count(1)
        self.rng = np.random.default_rng(seed)

    def type_of(self, depth: int) -> IcebergType:
        kind = (
            self.choose.choice(["struct", "struct", "list", "map", *["primitive"] * 3]) if depth else "struct"
        )
        if kind == "primitive" or depth > 3:
            return self.choose.choice(PRIMITIVES)
        if kind == "list":
            return ListType(next(self.ids), self.type_of(depth + 1), element_required=False)
        if kind == "map":
            key, value = next(self.ids), next(self.ids)
            return MapType(key, StringType(), value, self.type_of(depth + 1), value_required=False)
        return StructType(*(self.field(depth) for _ in range(self.choose.randint(1, 4))))

    def field(self, depth: int) -> NestedField:
        number, required = next(self.ids), self.choose.random() < 0.3
        return NestedField(number, f"f{number}", self.type_of(depth + 1), required=required)

    def evolved(self, kind: IcebergType) -> IcebergType:
        """Drops, adds, renames, reorders and promotes fields at every depth."""
        if isinstance(kind, ListType):
            return ListType(kind.element_id, self.evolved(kind.element_type), element_required=False)
        if isinstance(kind, MapType):
            return MapType(
                kind.key_id, kind.key_type, kind.value_id, self.evolved(kind.value_type), value_required=False
            )
        if not isinstance(kind, StructType):
            return WIDER.get(kind, kind) if self.choose.random() < 0.3 else kind
        fields = []
        for field in kind.fields:
            if self.choose.random() < 0.7:
                name = f"{field.name}_new" if self.choose.random() < 0.2 else field.name
                kept = self.evolved(field.field_type)
                fields.append(NestedField(field.field_id, name, kept, required=field.required))
        if not fields or self.choose.random() < 0.4:
            number, default = next(self.ids), self.choose.choice([None, 7])
            fields.append(
                NestedField(number, f"f{number}", LongType(), required=False, initial_default=default)
            )
        if self.choose.random() < 0.3:
            self.choose.shuffle(fields)
        return StructType(*fields)


def arrow_type(kind: IcebergType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([arrow(field) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(arrow(kind.element_field))
    if isinstance(kind, MapType):
        return pa.map_(arrow(kind.key_field), arrow(kind.value_field))
    return ARROW[kind]


def arrow(field: NestedField) -> pa.Field:
    number = {"PARQUET:field_id": str(field.field_id)}
    return pa.field(field.name, arrow_type(field.field_type), not field.required, number)


def leaves(
    fields: Sequence[NestedField], around: tuple[NestedField, ...] = ()
) -> Iterator[tuple[NestedField, tuple[NestedField, ...]]]:
    """The fields of structs at every depth, but for the structs, and the structs around each."""
    for field in fields:
        if isinstance(field.field_type, StructType):
            yield from leaves(field.field_type.fields, (*around, field))
        else:
            yield field, around


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("at_once", [1, 1 << 20], ids=["read by pages", "read at once"])
def test_fields_of_structs_are_read_alone_as_with_the_structs(
    seed: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_pages, "LEAST_IN_PAGES", at_once)
    made = Made(seed)
    stored = [NestedField(next(made.ids), "s", made.type_of(0), required=made.choose.random() < 0.3)]
    stored += [NestedField(next(made.ids), "n", LongType(), required=False)]
    schema = pa.schema([*map(arrow, stored)])
    columns = [random_array(made.rng, N, field.type, nullable=field.nullable) for field in schema]
    path = tmp_path / "f.parquet"
    options: dict[str, Any] = {
        "use_dictionary": made.choose.random() < 0.5,
        "data_page_version": made.choose.choice(["1.0", "2.0"]),
        "data_page_size": made.choose.choice([100, 5_000, 1 << 20]),
        "write_batch_size": 64,
        "compression": made.choose.choice(["none", "snappy", "zstd", "gzip", "brotli"]),
    }
    pq.write_table(pa.table(columns, schema), path, **options)
    reader, whole = ParquetReader(PyArrowFileIO(), str(path)), pq.read_table(path).combine_chunks()
    files = [FileSchema(reader.schema, parts=parts) for parts in (False, True)]
    for kinds in (StructType(*stored), made.evolved(StructType(*stored))):
        assert isinstance(kinds, StructType)
        for views in (False, True):
            projections = [Projection.of(file, kinds.fields) for file in files]
            steps = [[file.leaf(*leaf) for leaf in leaves(kinds.fields)] for file in files]
            early = dict.fromkeys(name for name, _ in steps[1] if name is not None)
            read = reader.columns(0, [*early, *projections[1].columns], N, use_threads=False, views=views)
            for first, n_rows, share in ((0, 1000, 1.0), (1000, 500, 0.01), (1500, N - 1500, 0.3)):
                chosen = np.flatnonzero(made.rng.random(n_rows) < share).astype(np.int32)
                found = {
                    name: plain(whole[name].combine_chunks().take(pa.array(chosen + first)))
                    for name in whole.column_names
                }
                alone = read.read(first, n_rows, None if share == 1 else chosen)
                left = projections[0].arrays(found, len(chosen), {})
                right = projections[1].arrays({name: plain(a) for name, a in alone.items()}, len(chosen), {})
                for one, other in zip(left, right, strict=True):
                    other.validate(full=True)
                    assert one.equals(other)
                nothing = pa.nulls(len(chosen))
                tops = dict(zip((field.field_id for field in kinds.fields), left, strict=True))
                for (top, of_whole), (name, of_part), leaf in zip(*steps, leaves(kinds.fields), strict=True):
                    one = of_whole(nothing if top is None else found[top], {})
                    other = of_part(nothing if name is None else alone[name], {})
                    assert one.equals(other)
                    outer, *inner = (*leaf[1], leaf[0])
                    of_rows = tops[outer.field_id]
                    for field in inner:
                        of_rows = pc.struct_field(of_rows, [field.name])
                    assert one.cast(of_rows.type).equals(of_rows)


def test_names_with_dots_are_no_paths(tmp_path: Path) -> None:
    def field(number: int, name: str, kind: pa.DataType) -> pa.Field:
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})

    struct = pa.struct([field(2, "a", pa.int64()), field(3, "b", pa.int64())])
    schema = pa.schema([field(1, "s", struct), field(4, "s.a", pa.int64())])
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([pa.array([{"a": 1, "b": 2}], struct), pa.array([3])], schema), path)
    known = FileSchema(ParquetReader(PyArrowFileIO(), str(path)).schema, parts=True)
    assert known.leaf(NestedField(2, "a", LongType(), required=False))[0] == "s"
    assert known.leaf(NestedField(4, "s.a", LongType(), required=False))[0] == "s.a"
