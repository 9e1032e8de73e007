"""Fields that a data file does not have: scans, filters, keys, indexes and equality deletes agree on their values.

Where a struct is null its fields are, whatever their defaults; a struct that the file does not have is null.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from puffin_fast.iceberg import rewrite_data_files
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.dml.tables import create_table
from puffin_fast.iceberg.index.build import index_keys
from puffin_fast.iceberg.manifest import EQUALITY_DELETES
from puffin_fast.iceberg.patches.accelerate import accelerate
from puffin_fast.iceberg.statistics.collect import collect_ndv
from puffin_fast.tables.changes import changes
from puffin_fast.tables.delete import delete, delete_keys
from puffin_fast.tables.overwrite import overwrite
from puffin_fast.tables.scan import scan
from puffin_fast.tables.update import update
from puffin_fast.tables.upsert import upsert
from tests.kit.seeds import seeds
from tests.rows.files.formats import ids
from tests.rows.files.test_formats import FORMATS, add

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

Row = dict[str, Any]


def optional(number: int, name: str, kind: Any) -> NestedField:
    return NestedField(number, name, kind, required=False)


INNER = StructType(
    optional(10, "a", LongType()), optional(11, "t", StructType(optional(12, "b", LongType())))
)
SCHEMA = Schema(
    optional(1, "id", LongType()),
    optional(2, "s", INNER),
    optional(3, "many", ListType(20, StructType(optional(21, "a", LongType())), element_required=False)),
    optional(
        4,
        "by_name",
        MapType(22, StringType(), 23, StructType(optional(24, "a", LongType())), value_required=False),
    ),
)


class Evolving:
    """A table, and a plain model of its rows."""

    def __init__(self, catalog: SqlCatalog, name: str, seed: object) -> None:
        self.choose, self.rows, self.names = random.Random(seed), [], iter("klmnopqrstuvw")
        self.name = name
        self.table = create_table(catalog, name, SCHEMA)

    def write(self, format: str) -> None:
        """Adds a file of rows, whose structs are null at times, at each level."""
        self.table = self.table.catalog.load_table(self.name)
        schema = self.table.schema()
        kind = pa.struct(list(schema.as_arrow()))
        first = len(self.rows)
        given = [
            {field.name: self._value(field.field_type) for field in schema.fields} | {"id": first + at}
            for at in range(9)
        ]
        self.rows += given
        rows = pa.Table.from_struct_array(pa.array(given, kind)).cast(schema.as_arrow())
        add(self.table, rows, format)

    def _value(self, kind: Any) -> Any:
        if self.choose.random() < 0.3:
            return None
        if isinstance(kind, StructType):
            return {field.name: self._value(field.field_type) for field in kind.fields}
        if isinstance(kind, ListType):
            return [self._value(kind.element_type) for _ in range(2)]
        if isinstance(kind, MapType):
            return [("k", self._value(kind.value_type))]
        return self.choose.randrange(3)

    def evolve(self) -> None:
        """Adds a field with or without a default, or a struct, at a random place."""
        paths = [(), *self._structs(self.table.schema().fields)]
        place, name = self.choose.choice(paths), next(self.names)
        default = self.choose.choice([None, 1, 1, 7])
        is_struct = self.choose.random() < 0.3
        kind = StructType(optional(90, "a", LongType())) if is_struct else LongType()
        with v3_metadata(self.table.catalog), self.table.update_schema() as change:
            change.add_column((*place, name), kind, default_value=None if is_struct else default)
        for row in self.rows:
            for struct in inside(row, place):
                struct[name] = None if is_struct else default

    def _structs(self, fields: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for field in fields:
            kind, here = field.field_type, (*path, field.name)
            if isinstance(kind, ListType):
                kind = kind.element_type
            elif isinstance(kind, MapType):
                kind = kind.value_type
            if isinstance(kind, StructType):
                yield here
                yield from self._structs(kind.fields, here)


def inside(value: Any, path: tuple[str, ...]) -> Iterator[Row]:
    """The structs at a path that are not null, also in lists and maps."""
    if isinstance(value, list):
        for one in value:
            yield from inside(one[1] if isinstance(one, tuple) else one, path)
    elif value is not None:
        if path:
            yield from inside(value[path[0]], path[1:])
        else:
            yield value


def leaves(schema: Schema) -> list[str]:
    """The names of the numbers that are in structs only."""
    return [
        name
        for name in schema.column_names
        if schema.find_field(name).field_type == LongType() and not name.startswith(("many", "by_name"))
    ]


def value_of(row: Row, name: str) -> Any:
    value: Any = row
    for part in name.split("."):
        value = None if value is None else value[part]
    return value


def key_rows(schema: Schema, name: str, value: int) -> tuple[Schema, pa.Table]:
    """A row with one key in its structs, and the schema of such rows."""
    top, *rest = name.split(".")
    field, given = schema.find_field(name), value
    for at in range(len(rest), 0, -1):
        struct = schema.find_field(".".join([top, *rest][:at]))
        field = struct.model_copy(update={"field_type": StructType(field)})
        given = {rest[at - 1]: given}
    narrow = Schema(field)
    return narrow, pa.Table.from_pylist([{top: given}], narrow.as_arrow())


def check(made: Evolving, values: set[Any]) -> None:
    table, rows = made.table, made.rows
    schema = table.schema()
    assert scan(table).to_arrow().sort_by("id").to_pylist() == rows
    for name in leaves(schema):
        column = [value_of(row, name) for row in rows]
        wanted = {
            **{f"{name} = {value}": [value == one for one in column] for value in values},
            f"{name} <> 1": [one is not None and one != 1 for one in column],
            f"{name} > 1": [one is not None and one > 1 for one in column],
            f"{name} is null": [one is None for one in column],
            f"{name} is not null": [one is not None for one in column],
            f"{name} = 1 and id > 3": [one == 1 and at > 3 for at, one in enumerate(column)],
        }
        for row_filter, is_found in wanted.items():
            expected = [at for at, found in enumerate(is_found) if found]
            assert ids(table, row_filter) == expected, row_filter
            if made.choose.random() < 0.3:
                assert scan(table, row_filter).count() == len(expected), row_filter
                assert changes(table, row_filter=row_filter).count() == len(expected), row_filter
                assert delete(table, row_filter, dry_run=True).rows_deleted == len(expected), row_filter
        number = made.choose.choice(sorted(values))
        n_equal, row_filter = column.count(number), f"{name} = {number}"
        assert update(table, row_filter, {"id": -1}, dry_run=True).rows_updated == n_equal, row_filter
        empty = schema.as_arrow().empty_table()
        assert overwrite(table, empty, row_filter, dry_run=True).rows_deleted == n_equal, row_filter
        for keys, null_safe, count in (
            ([number], False, n_equal),
            ([number, None], True, n_equal + column.count(None)),
        ):
            found = delete_keys(
                table, pa.table({name: pa.array(keys, pa.int64())}), name, null_safe=null_safe, dry_run=True
            )
            assert found.rows_deleted == count, (name, keys)
        if n_equal < 2 and "." in name:
            _, given = key_rows(schema, name, number)
            others = [field for field in schema.as_arrow() if field.name != name.partition(".")[0]]
            for field in others:
                given = given.append_column(field, pa.nulls(1, field.type))
            result = upsert(table, given, name, skip_unchanged=False, dry_run=True)
            assert (result.rows_updated, result.rows_inserted) == (n_equal, 1 - n_equal), row_filter
    distinct = collect_ndv(table, leaves(schema), dry_run=True).ndv
    for name in leaves(schema):
        known = {value_of(row, name) for row in rows} - {None}
        assert distinct[name] == len(known), name


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", seeds(1))
def test_all_verbs_agree_on_the_values_of_missing_fields(
    shared_catalog: SqlCatalog, namespace: str, format: str, seed: int
) -> None:
    made = Evolving(shared_catalog, f"{namespace}.t", f"{seed} {format}")
    for _ in range(2):
        made.write(format)
        made.evolve()
        made.evolve()
    made.write(format)
    made.table = shared_catalog.load_table(made.name)
    check(made, {1, 7})
    index_keys(made.table, made.choose.choice([name for name in leaves(made.table.schema()) if "." in name]))
    rewrite_data_files(made.table, min_file_size=1 << 30, min_input_files=2)
    made.table = shared_catalog.load_table(made.name)
    check(made, {7})


@pytest.mark.parametrize("format", FORMATS)
def test_equality_deletes_find_the_values_of_missing_fields(
    shared_catalog: SqlCatalog, namespace: str, format: str
) -> None:
    made = Evolving(shared_catalog, f"{namespace}.t", 5)
    made.write(format)
    with v3_metadata(shared_catalog), made.table.update_schema() as change:
        change.add_column(("s", "x"), LongType(), default_value=1)
        change.add_column(("s", "t", "x"), LongType(), default_value=1)
    for path, number in (("s.t.x", 1), ("s.x", None)):
        table = made.table = shared_catalog.load_table(made.name)
        schema, keys = key_rows(table.schema(), path, number)  # type: ignore[arg-type]
        field = table.schema().find_field(path)
        left = [
            row["id"]
            for row in scan(table).to_arrow().sort_by("id").to_pylist()
            if value_of(row, path) != number
        ]
        add(table, keys, format, schema=schema, content=EQUALITY_DELETES, equality_ids=[field.field_id])
        assert ids(table) == left, path
        assert 0 < len(left) < 9


def test_a_dropped_field_is_found_by_equality_deletes(shared_catalog: SqlCatalog, namespace: str) -> None:
    made = Evolving(shared_catalog, f"{namespace}.t", 5)
    made.write("PARQUET")
    with v3_metadata(shared_catalog), made.table.update_schema() as change:
        change.add_column(("s", "x"), LongType(), default_value=1)
    table = made.table = shared_catalog.load_table(made.name)
    schema, keys = key_rows(table.schema(), "s.x", 1)
    number = table.schema().find_field("s.x").field_id
    add(table, keys, "PARQUET", schema=schema, content=EQUALITY_DELETES, equality_ids=[number])
    with v3_metadata(shared_catalog), table.update_schema() as change:
        change.delete_column(("s", "x"))
    left = [row["id"] for row in made.rows if row["s"] is None]
    assert ids(shared_catalog.load_table(made.name)) == left
    assert left


@pytest.mark.parametrize("format", FORMATS)
def test_accelerated_scans_agree(shared_catalog: SqlCatalog, namespace: str, format: str) -> None:
    """PyIceberg's own filter takes the default where the struct is null."""
    made = Evolving(shared_catalog, f"{namespace}.t", 5)
    made.write(format)
    with v3_metadata(shared_catalog), made.table.update_schema() as change:
        change.add_column(("s", "x"), LongType(), default_value=7)
        change.add_column(("s", "t", "x"), LongType(), default_value=7)
    table = shared_catalog.load_table(made.name)
    delete(table, "id = 1")
    for row_filter in ("s.x = 7", "s.t.x = 7", "s.t.x is null and id > 2"):
        for fields in (("*",), ("id",), ("id", "s.x")):
            expected = scan(table, row_filter, fields).to_arrow()
            with accelerate():
                assert table.scan(row_filter, fields).to_arrow() == expected, (row_filter, fields)
                assert table.scan(row_filter, fields, limit=1).to_arrow() == expected[:1]
