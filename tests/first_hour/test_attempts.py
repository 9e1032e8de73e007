"""Natural first attempts: each works, or its error says what to write, in one line and without values of rows."""

from __future__ import annotations

import pkgutil
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import puffin_fast as pf
from puffin_fast._api.keywords import function_for
from tests.kit.cases import each
from tests.kit.tables import delta_table, iceberg_table

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "word": list("abcdefghij"), "price": [0.5] * 10})
SECRET = "secret-4711"
OTHER = 4711_4711

Attempt = Callable[[Table], Any]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """The table ``shop.t`` with `ROWS`. Attempts leave it as it is."""
    folder = tmp_path_factory.mktemp("attempts")
    catalog = SqlCatalog("prod", uri=f"sqlite:///{folder}/prod.db", warehouse=f"{folder}/wh")
    catalog.create_namespace("shop")
    yield iceberg_table(catalog, ROWS, name="shop.t")
    catalog.engine.dispose()


def given(**columns: Any) -> pa.Table:
    return pa.table(columns)


REFUSED: dict[str, tuple[Attempt, str]] = {
    "a column of rows": (
        lambda t: pf.iceberg.append(t, given(id=[1], wird=["a"])), "no column wird; did you mean word; it has id"
    ),
    "a filter in another case": (lambda t: pf.iceberg.scan(t, "WORD = 'x'"), "no column WORD; did you mean word"),
    "a column": (lambda t: pf.iceberg.scan(t, selected_fields=["Word"]), "no column Word; did you mean word"),
    "one column as text": (lambda t: pf.iceberg.scan(t, selected_fields="id"), r"found 'id'; write \['id'\]"),
    "a key": (lambda t: pf.iceberg.delete_keys(t, [1], "idd"), "join_cols: no column idd; did you mean id; "),
    "a key of rows": (lambda t: pf.iceberg.upsert(t, ROWS, ["wordd"]), "no column wordd; did you mean word"),
    "a value": (lambda t: pf.iceberg.update(t, "id = 1", {"prise": 1.0}), "no column prise; did you mean price"),
    "a sort order": (
        lambda t: pf.iceberg.rewrite_data_files(t, sort_by=["Id"]), "no column Id; did you mean id"
    ),
    "statistics": (lambda t: pf.iceberg.collect_ndv(t, ["wird"]), "no column wird; did you mean word"),
    "a partition": (
        lambda t: pf.iceberg.create_table(t.catalog, "shop.x", ROWS, partition_spec=["day(ids)"]),
        "no column ids; did you mean id",
    ),
    "a namespace": (
        lambda t: pf.iceberg.create_table(t.catalog, "shoop.x", ROWS),
        "^shoop.x: the catalog has no namespace shoop, but shop; catalog.create_namespace creates it$",
    ),
    "a type of Arrow": (
        lambda t: pf.iceberg.create_table(t.catalog, "shop.x", {"id": "int64"}), "found 'int64'; write 'long'"
    ),
    "a type of SQL": (
        lambda t: pf.iceberg.create_table(t.catalog, "shop.x", {"id": "VARCHAR"}), "; write 'string'"
    ),
    "a type of Python": (lambda t: pf.iceberg.create_table(t.catalog, "shop.x", {"id": int}), "; write 'long'"),
    "keys twice": (
        lambda t: pf.iceberg.upsert(t, pa.concat_tables([given(id=[OTHER], word=[SECRET], price=[1.0])] * 2), "word"),
        r"two rows with one key \(word\); expected each key once",
    ),
    "a dict without columns": (lambda t: pf.iceberg.append(t, {}), "found dict: it has no columns"),
    "rows without columns": (lambda t: pf.iceberg.append(t, [{}, {}]), "its rows have no columns"),
    "a dict of one row": (lambda t: pf.iceberg.append(t, {"id": OTHER}), "id is one int; expected a sequence"),
    "mixed values": (lambda t: pf.iceberg.append(t, {"id": [1, SECRET]}), "found str: tried to convert"),
    "mixed rows": (lambda t: pf.iceberg.append(t, [{"id": 1}, {"id": SECRET}]), "found str: tried to convert"),
    "mixed pandas": (
        lambda t: pf.iceberg.append(t, pd.DataFrame({"id": pd.Series([1, SECRET], dtype=object)})), "column id"
    ),
    "a large number": (lambda t: pf.iceberg.append(t, [{"id": OTHER * 10**30}]), "too large"),
    "a large key": (lambda t: pf.iceberg.delete_keys(t, [OTHER * 10**30], "id"), "too large"),
    "mixed keys": (lambda t: pf.iceberg.delete_keys(t, [1, SECRET], "id"), "found str: tried to convert"),
    "a fraction": (lambda t: pf.iceberg.append(t, pl.DataFrame({"id": [OTHER + 0.5]})), "with a fraction"),
    "a missing file": (lambda t: pf.PuffinReader("nope.puffin"), "nope.puffin .*: no such file"),
    "a missing table": (lambda t: pf.iceberg.load_table(t.catalog, "shop.tt"), "namespace shop has shop.t$"),
    "a filter": (lambda t: pf.iceberg.delete(t, "wrd = 'a'"), "no column wrd; did you mean word"),
    "a filter of another type": (lambda t: pf.iceberg.delete(t, "id = 'x'"), "is not a value of type long"),
    "a catalog as the table": (lambda t: pf.iceberg.scan(t.catalog, "shop.t"), r"open_table\(catalog, name\)"),
    "a snapshot": (lambda t: pf.iceberg.scan(t, snapshot_id=1), "no snapshot 1"),
    "a verb outside of the block": (lambda t: pf.iceberg.transaction(t).append(ROWS), "inside of its with block"),
    "no filter": (lambda t: pf.iceberg.scan(t, None), "'true' is for all rows"),  # type: ignore[arg-type]
    "a filter of Polars": (lambda t: pf.iceberg.scan(t, pl.col("id") < 5), "text, such as 'id < 5'"),  # type: ignore[arg-type]
    "filters of pandas": (lambda t: pf.iceberg.scan(t, [("id", "<", 5)]), "write one text: \"id < 5 AND"),  # type: ignore[arg-type]
    "keys as a filter": (lambda t: pf.iceberg.delete(t, [1, 2]), "delete_keys takes keys"),  # type: ignore[arg-type]
    "a number for text": (lambda t: pf.iceberg.delete(t, "word = 1"), "'word = 1': expected a value of type string"),
    "one column": (
        lambda t: pf.iceberg.append(t, ROWS["id"]),
        "one column, a ChunkedArray of pyarrow; pass {'id': values}",
    ),
    "rows without names": (lambda t: pf.iceberg.append(t, [(1, "a")]), "list of tuple; pass a dict for each row"),
    "a function of values": (
        lambda t: pf.iceberg.update(t, "id = 1", {"price": lambda old: old * 2}), "pc.field.'price'. . 2, found a func"
    ),
    "a schema as text": (lambda t: pf.iceberg.create_table(t.catalog, "shop.x", "id long"), "types by column: {'id'"),
    "a catalog as text": (lambda t: pf.iceberg.create_table("prod", "shop.x", ROWS), "pyiceberg.catalog.load_catalog"),  # type: ignore[arg-type]
    "a negative limit": (lambda t: pf.iceberg.scan(t).limit(-1), "n_rows: expected at least 0, found -1"),
}  # fmt: skip


@pytest.mark.parametrize(("attempt", "said"), REFUSED.values(), ids=REFUSED)
def test_refused_attempts_say_what_to_write(table: Table, attempt: Attempt, said: str) -> None:
    before = table.metadata_location
    with pytest.raises(pf.PuffinFastError, match=said) as raised:
        attempt(table)
    shown = "".join(traceback.format_exception(raised.value))
    assert "direct cause" not in shown
    assert "During handling" not in shown
    assert SECRET not in str(raised.value)
    assert str(OTHER) not in str(raised.value)
    assert table.refresh().metadata_location == before


@pytest.mark.parametrize(
    "name", ["a column", "a key", "a filter", "mixed rows", "a namespace", "a missing table"]
)
def test_errors_in_arguments_show_no_frames_of_the_package(table: Table, name: str) -> None:
    attempt, _ = REFUSED[name]
    with pytest.raises(pf.PuffinFastError) as raised:
        attempt(table)
    inside = [Path(frame.filename).name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert inside[-1:] == ["keywords.py"]
    assert len(inside) == 3


@each(
    "module, name, said",
    [
        (pf, "merge", r"see pf\.upsert$"),
        (pf.iceberg, "merge", r"see pf\.iceberg\.upsert$"),
        (pf.iceberg, "insert", r"see pf\.iceberg\.append$"),
        (pf.iceberg, "count", r"see pf\.iceberg\.scan$"),
        (pf.delta, "vacuum", r"see pf\.delta\.remove_orphan_files$"),
        (pf.delta, "load_cdf", r"see pf\.delta\.changes$"),
        (pf.delta, "nonsense", "has no attribute 'nonsense'$"),
        (pf.iceberg, "drop_table", "see drop_table of the catalog$"),
        (pf, "RoaringBitmap", "see pf.PositionBitmap$"),
        (pf.dv, "encode", "see iceberg.encode, delta.encode"),
        (pf.PositionBitmap(), "add", r"write bitmap \| PositionBitmap"),
    ],
)
def test_functions_of_other_libraries_name_the_one_here(module: Any, name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        getattr(module, name)


def test_scans_of_delta_tables_have_the_same_methods(tmp_path: Path) -> None:
    scan = pf.delta.scan(delta_table(tmp_path / "t", ROWS), "id > 2", ["id"])
    assert scan.filter("word < 'f' or price > 1").select("word").to_pylist() == [{"word": "d"}, {"word": "e"}]
    assert scan.limit(3).filter("id > 4").head(2).to_pylist() == [{"id": 5}, {"id": 6}]
    assert scan.select(["word", "id"]).limit(1).schema.names == ["id", "word"]
    with pytest.raises(pf.NotFoundError, match="no column wrd; did you mean word"):
        scan.filter("wrd = 1")
    with pytest.raises(pf.InvalidInputError, match="character"):
        scan.filter("id = 1) or (true")


def test_names_of_other_libraries_on_objects_name_the_one_here(table: Table) -> None:
    for found, name, said in (
        (pf.iceberg.scan(table), "collect", r"'Scan' object has no attribute 'collect'; write to_arrow\(\)$"),
        (pf.iceberg.scan(table), "nonsense", "has no attribute 'nonsense'$"),
        (pf.iceberg.transaction(table), "commit", "the commit is made where the with block ends"),
    ):
        with pytest.raises(AttributeError, match=said):
            getattr(found, name)
    assert not hasattr(pf.iceberg.scan(table), "__len__")


WORKS: dict[str, tuple[Attempt, Any]] = {
    "limit": (lambda t: pf.iceberg.scan(t).limit(3).to_arrow()["id"].to_pylist(), [0, 1, 2]),
    "two limits": (lambda t: pf.iceberg.scan(t, limit=2).limit(3).count(), 2),
    "filter after limit": (lambda t: pf.iceberg.scan(t).limit(2).filter("id > 5").to_pylist()[0]["id"], 6),
    "the limit stays": (lambda t: pf.iceberg.scan(t).limit(2).filter("id > 5").select("id").count(), 2),
    "head": (lambda t: pf.iceberg.scan(t, "id > 7").head().num_rows, 2),
    "head of some": (lambda t: pf.iceberg.scan(t).head(1)["id"].to_pylist(), [0]),
    "to_pylist": (lambda t: pf.iceberg.scan(t, "id = 1", ["id"]).to_pylist(), [{"id": 1}]),
    "head of changes": (lambda t: pf.iceberg.changes(t).head(4)["id"].to_pylist(), [0, 1, 2, 3]),
    "limited changes": (lambda t: pf.iceberg.changes(t).limit(4).count(), 4),
    "no keys": (lambda t: pf.iceberg.delete_keys(t, [], "id").rows_deleted, 0),
    "no rows": (lambda t: pf.append(t, []).commit.id, None),
}


@each("attempt, expected", WORKS.values(), ids=WORKS)
def test_attempts_that_work(table: Table, attempt: Attempt, expected: Any) -> None:
    assert attempt(table) == expected


SHORT: dict[str, Attempt] = {
    "plan": pf.iceberg.plan_files,
    "task": lambda t: pf.iceberg.plan_files(t).tasks[0],
    "changes": lambda t: pf.iceberg.changes(t).limit(2),
    "maintenance": lambda t: pf.iceberg.maintain(t, dry_run=True),
    "transaction": pf.iceberg.transaction,
    "scan": pf.iceberg.scan,
    "report": pf.iceberg.report,
    "verify": pf.iceberg.verify,
    "dry run": lambda t: pf.iceberg.delete(t, "id = 1", dry_run=True),
}


@each("make", SHORT.values(), ids=SHORT)
def test_texts_of_objects_are_short(table: Table, make: Attempt) -> None:
    shown = repr(make(table))
    assert len(shown) < 250, shown
    assert not re.search(r"=(0|None|\(\)|\[\])[,)]| object at 0x", shown)


@pytest.mark.parametrize("module", [pf.iceberg, pf.delta, pf.paimon, pf.lance], ids=lambda one: one.__name__)
def test_no_inner_package_has_the_name_of_a_function_elsewhere(module: ModuleType) -> None:
    """Once it was imported, there would be no hint, and a call would say that a module is not callable."""
    inner = {name for _, name, _ in pkgutil.iter_modules(module.__path__)}
    assert not {name for name in inner if function_for(name)}
