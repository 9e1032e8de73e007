"""Tables of two formats, and random verbs on them beside a plain list of their rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import delta, iceberg
from puffin_fast.errors import InvalidInputError
from tests.conftest import require_module
from tests.delta.tables import rows_and_ids

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog


SCHEMA = pa.schema(
    [("id", pa.int64()), ("g", pa.string()), ("x", pa.float64()), ("s", pa.struct([("a", pa.int32())]))]
)


Row = dict[str, Any]


Model = dict[int, Row]


TRACKED = {"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"}


def row(chance: random.Random, id: int) -> Row:
    a = chance.choice([None, {"a": chance.randrange(5)}, {"a": None}])
    return {"id": id, "g": chance.choice(["a", "b/ %", "ü", None]), "x": chance.randrange(9) / 2, "s": a}


def of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


class IcebergTable:
    """A table of PyIceberg, with the verbs of this package."""

    verbs: Any = iceberg
    places = (
        "puffin_fast.iceberg.dml.attempt.IcebergWriter.stage",
        "puffin_fast.iceberg.commit.protocol.write_manifest_list",
    )

    def folder(self) -> Path:
        return Path(self.table.location().removeprefix("file://"))

    def __init__(self, catalog: SqlCatalog, namespace: str, partition: list[str], version: str = "3") -> None:
        if version == "3":
            self.table: Any = iceberg.create_table(
                catalog, f"{namespace}.t", SCHEMA, partition_spec=partition
            )
        else:
            self.table = catalog.create_table(
                f"{namespace}.t", SCHEMA, properties={"format-version": version}
            )

    def read(self, names: list[str]) -> list[Row]:
        rows: list[Row] = iceberg.scan(self.table, selected_fields=names).to_arrow().to_pylist()
        return rows

    def others(self) -> Iterator[list[Row]]:
        yield self.table.scan().to_arrow().to_pylist()


class DeltaTable:
    """A Delta table, with the verbs of this package."""

    verbs: Any = delta
    places = (
        "puffin_fast.delta.dml.attempt.DeltaWriter.stage",
        "puffin_fast.delta.log.commit._Commit._content",
    )

    def folder(self) -> Path:
        return Path(self.table)

    def __init__(self, path: Path, partition: list[str], properties: dict[str, str] | None = None) -> None:
        self.table: Any = path
        made = delta.create_table(path, SCHEMA, partition_columns=partition, properties=properties)
        assert made.version == 0

    def read(self, names: list[str]) -> list[Row]:
        if names[-1] == "_row_id":
            found = rows_and_ids(self.table)
            return found.rows.append_column("_row_id", found.metadata["_row_id"]).to_pylist()
        rows: list[Row] = delta.scan(self.table, selected_fields=names).to_arrow().to_pylist()
        return rows

    def others(self) -> Iterator[list[Row]]:
        deltalake: Any = require_module("deltalake")
        builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(self.table)))
        yield pa.table(builder.execute("SELECT * FROM t").read_all()).to_pylist()
        assert delta.verify(self.table) == []
        used = {path.name for path in Path(self.table).rglob("*") if path.is_file()}
        used -= {path.name for path in (Path(self.table) / "_delta_log").iterdir()}
        log = "".join(file.read_text() for file in (Path(self.table) / "_delta_log").glob("*.json"))
        for name in used:
            if name.endswith(".parquet") and not name.startswith("."):
                assert name in log, f"{name} is in no version"


AnyTable = IcebergTable | DeltaTable


def is_partitioned(made: AnyTable) -> bool:
    if isinstance(made, DeltaTable):
        return bool(delta.snapshot(made.table).partition_columns)
    return not made.table.spec().is_unpartitioned()


def append(made: AnyTable, tx: Any, model: Model, chance: random.Random) -> None:
    new = [row(chance, id) for id in {chance.randrange(1000) for _ in range(8)} - model.keys()]
    tx.append(of(new))
    model.update((one["id"], one) for one in new)


def filters(chance: random.Random) -> tuple[Any, Callable[[Row], bool]]:
    low, g = chance.randrange(1000), chance.choice(["a", "b/ %"])
    high = low + chance.randrange(1, 400)
    return chance.choice(
        [
            (f"id >= {low} and id < {high}", lambda one: low <= one["id"] < high),
            (f"g = '{g}' and x > 1", lambda one: one["g"] == g and one["x"] > 1),
            (f"g is null or id = {low}", lambda one: one["g"] is None or one["id"] == low),
            (pc.field("x") * 2 == 3, lambda one: one["x"] == 1.5),
        ]
    )


def delete(made: AnyTable, tx: Any, model: Model, chance: random.Random) -> None:
    text, holds = filters(chance)
    gone = [id for id, one in model.items() if holds(one)]
    assert tx.delete(text).rows_deleted == len(gone)
    for id in gone:
        del model[id]


def delete_keys(made: AnyTable, tx: Any, model: Model, chance: random.Random) -> None:
    keys = [*chance.sample(sorted(model), min(3, len(model))), 5000]
    assert tx.delete_keys(pa.table({"id": keys}), "id").rows_deleted == len(keys) - 1
    for id in keys[:-1]:
        del model[id]


def update(made: AnyTable, tx: Any, model: Model, chance: random.Random) -> None:
    text, holds = filters(chance)
    values: dict[str, Any] = {"x": pc.field("x") + 1, "g": chance.choice(["a", "ü", None])}
    found = [one for one in model.values() if holds(one)]
    assert tx.update(text, values).rows_updated == len(found)
    for one in found:
        model[one["id"]] = one | {"x": one["x"] + 1, "g": values["g"]}


def upsert(made: AnyTable, tx: Any, model: Model, chance: random.Random) -> None:
    old = chance.sample(sorted(model), min(4, len(model)))
    given = [row(chance, id) for id in dict.fromkeys([*old, chance.randrange(1000), chance.randrange(1000)])]
    done = tx.upsert(of(given), "id")
    changed = [one for one in given if one["id"] in model and model[one["id"]] != one]
    new = [one for one in given if one["id"] not in model]
    assert (done.rows_updated, done.rows_inserted) == (len(changed), len(new))
    assert done.rows_unchanged == len(given) - len(changed) - len(new)
    model.update((one["id"], one) for one in given)


def set_columns(made: AnyTable, tx: Any, model: Model, chance: random.Random) -> None:
    old = chance.sample(sorted(model), min(4, len(model)))
    rows = pa.table({"id": pa.array([*old, 6000], pa.int64()), "x": [77.0] * (len(old) + 1)})
    done = tx.upsert(rows, "id", update_columns=["x"], when_not_matched_insert_all=False)
    assert (done.rows_updated, done.rows_inserted) == (sum(model[id]["x"] != 77 for id in old), 0)
    for id in old:
        model[id] = model[id] | {"x": 77.0}


def feed(made: AnyTable, tx: Any, model: Model, chance: random.Random) -> None:
    gone, kept = (chance.sample(sorted(model), min(2, len(model))) for _ in range(2))
    first = [row(chance, id) | {"at": 1, "gone": id not in gone} for id in {*gone, *kept}]
    last = [row(chance, id) | {"at": 2, "gone": id in gone} for id in {*gone, *kept, 1001}]
    schema = SCHEMA.append(pa.field("at", pa.int64())).append(pa.field("gone", pa.bool_()))
    data = pa.Table.from_pylist([*last, *first], schema)
    done = tx.upsert(data, "id", delete_column="gone", order_column="at")
    assert (done.keys_deleted, done.rows_superseded) == (len(gone), len(first))
    for one in last:
        model.pop(one["id"], None)
        if not one["gone"]:
            model[one["id"]] = {name: one[name] for name in SCHEMA.names}


def overwrite(made: AnyTable, tx: Any, model: Model, chance: random.Random) -> None:
    text, holds = filters(chance)
    gone = [id for id, one in model.items() if holds(one)]
    given = [row(chance, 2000 + chance.randrange(10**6))]
    done = tx.overwrite(of(given), text)
    assert (done.rows_deleted, done.rows_appended) == (len(gone), 1)
    for id in gone:
        del model[id]
    model.update((one["id"], one) for one in given)


def partitions(made: AnyTable, tx: Any, model: Model, chance: random.Random) -> None:
    given = [row(chance, 2000 + chance.randrange(10**6))]
    if not is_partitioned(made):
        with pytest.raises(InvalidInputError, match="partitioned"):
            tx.dynamic_partition_overwrite(of(given))
        return
    gone = [id for id, one in model.items() if one["g"] == given[0]["g"]]
    assert tx.dynamic_partition_overwrite(of(given)).rows_deleted == len(gone)
    for id in gone:
        del model[id]
    model.update((one["id"], one) for one in given)


OPERATIONS_OF = (
    append,
    append,
    delete,
    delete_keys,
    update,
    upsert,
    set_columns,
    feed,
    overwrite,
    partitions,
)


class Single:
    """Each verb as a commit of its own, with the interface of a transaction; `workers` where a verb takes them."""

    def __init__(self, made: AnyTable, workers: Executor | None = None) -> None:
        self._made, self._workers = made, workers

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._made.verbs, name)
        given = {"workers": self._workers} if "workers" in signature(verb).parameters else {}
        return lambda *args, **options: verb(self._made.table, *args, **given, **options)


def agree(made: AnyTable, model: Model) -> None:
    expected = sorted(model.values(), key=lambda one: one["id"])
    assert sorted(made.read(SCHEMA.names), key=lambda one: one["id"]) == expected
