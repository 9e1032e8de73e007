"""Replaces each value in the log of a table by values of every kind, and runs all verbs on what is left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast import delta, errors
from tests.kit.rows import Rows, by_us
from tests.kit.tables import files_of

VALUES: dict[str, Any] = {
    "null": None,
    "bool": True,
    "int": 5,
    "negative": -1,
    "float": 0.5,
    "huge": 10**30,
    "text": "a b",
    "empty text": "",
    "surrogate": "\ud800",
    "list": [1, "a"],
    "map": {"a": 1},
}
JSON_TEXTS = ("schemaString", "stats", "configuration")
"""Fields that may have JSON as text."""

Place = tuple[Any, ...]
TEXT = "json"
"""A step of a place: into the JSON of a text."""


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """The places of all values in JSON, the outermost one included."""
    yield place
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, (*place, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from places(inner, (*place, at))
    elif isinstance(value, str) and place and place[-1] in JSON_TEXTS:
        with suppress(ValueError):
            if isinstance(inner := json.loads(value), dict):
                yield from (found for found in places(inner, (*place, TEXT)) if found != (*place, TEXT))


def put(value: Any, place: Place, new: Any) -> Any:
    """The JSON with another value at a place."""
    if not place:
        return new
    if place[0] == TEXT and isinstance(value, str):
        return json.dumps(put(json.loads(value), place[1:], new))
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(copy[place[0]], place[1:], new)
    return copy


def cases(table: Path) -> Iterator[tuple[Path, int, Place]]:
    """File, line and place of all values in the JSON files of a log."""
    for file in sorted((table / "_delta_log").glob("*.json")):
        for number, line in enumerate(file.read_text().splitlines()):
            for place in places(json.loads(line)):
                yield file.relative_to(table), number, place


def mutate(table: Path, file: Path, number: int, place: Place, value: Any) -> None:
    lines = (table / file).read_text().splitlines()
    lines[number] = json.dumps(put(json.loads(lines[number]), place, value))
    (table / file).write_text("\n".join(lines) + "\n")


# Checkpoints ---------------------------------------------------------------------------------------------------


def columns_of(kind: pa.DataType, place: Place = ()) -> Iterator[Place]:
    """The places of all columns and fields of structs."""
    if place:
        yield place
    if not place or pa.types.is_struct(kind):
        for one in kind:
            yield from columns_of(one.type, (*place, one.name))


def put_column(array: Any, place: Place, value: Any) -> Any:
    """The array with another value in all rows of a field that are not null."""
    if not place:
        return pa.array([None if one is None else value for one in array.to_pylist()])
    fields = {one.name: array.field(at) for at, one in enumerate(array.type)}
    fields[place[0]] = put_column(fields[place[0]], place[1:], value)
    return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=array.is_null())


def mutate_column(file: Path, place: Place, value: Any) -> None:
    rows = pq.read_table(file)
    at = rows.schema.get_field_index(place[0])
    column = put_column(rows[place[0]].combine_chunks(), place[1:], value)
    pq.write_table(rows.set_column(at, place[0], column), file)


# Verbs ---------------------------------------------------------------------------------------------------------


def rows_of(table: Path) -> Rows:
    rows = by_us(table)
    assert delta.scan(table).count() == len(rows)
    return rows


def _reads(table: Path) -> None:
    rows_of(table)
    delta.vectors(table)
    delta.report(table)
    delta.scan(table, "id < 30").to_arrow()


def _deletes(table: Path) -> None:
    before = rows_of(table)
    delta.delete(table, "id < 30", job_id="a job")
    assert rows_of(table) == [row for row in before if row["id"] is None or row["id"] >= 30]


def _updates(table: Path) -> None:
    before = [row["id"] for row in rows_of(table)]
    delta.update(table, "id < 30", {"v": "new"})
    found = rows_of(table)
    assert [row["id"] for row in found] == before
    assert all(row["v"] == "new" for row in found if row["id"] is not None and row["id"] < 30)


def _upserts(table: Path) -> None:
    delta.upsert(table, delta.scan(table, limit=3).to_arrow(), "id", skip_unchanged=False)


def _purges(table: Path) -> None:
    before = rows_of(table)
    delta.purge(table, min_deleted=1e-9)
    assert rows_of(table) == before


VERBS: dict[str, Callable[[Path], Any]] = {
    "verify": delta.verify,
    "reads": _reads,
    "as_of": lambda table: delta.snapshot(table, as_of=1 << 42),
    "orphan_files": lambda table: delta.orphan_files(table, older_than=timedelta(0)),
    "deletes": _deletes,
    "updates": _updates,
    "upserts": _upserts,
    "purges": _purges,
    "enables": lambda table: (delta.enable(table), rows_of(table)),
}


def wrong(table: Path, scratch: Path, verbs: dict[str, Callable[[Path], Any]] = VERBS) -> list[str]:
    """What the verbs raise on copies of a table that is none of our errors; a verb that returns is asked by its law."""
    found = []
    for name, verb in verbs.items():
        copy = scratch / table.name
        shutil.copytree(table, copy, symlinks=True)
        before = files_of(copy)
        try:
            verb(copy)
        except errors.PuffinFastError:
            new = files_of(copy) - before
            if new and not any(path.match("_delta_log/*.json") for path in new):
                found.append(f"{name}: left {new}")
        except BaseException as error:
            found.append(f"{name}: {type(error).__name__}: {error}")
        shutil.rmtree(copy)
    return found
