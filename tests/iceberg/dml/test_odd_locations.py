"""Tables in folders with odd names: they work, or are refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError
from tests.iceberg.conftest import set_properties
from tests.iceberg.verbs import ROWS, WRITES
from tests.kit.tables import iceberg_table, path_of

if TYPE_CHECKING:
    from tests.kit.faults import RacingCatalog


WORKING = ["a b", "a%20b", "a%b", "\u00fc", "a&b=c", "a+b", "a;b", "~a", "a:b", "a*[b]"]
ENDING = ["a#b", "a?b", "a\nb", "a\tb", "a\rb"]
"""Names that PyIceberg cuts short, or joins, in a location with a scheme."""


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db"}


@pytest.mark.parametrize(
    "name", [*(f"file://{{}}/{name}" for name in WORKING), *(f"{{}}/{name}" for name in ENDING)]
)
def test_a_table_works_where_pyiceberg_writes_what_it_says(
    racing: RacingCatalog, tmp_path: Path, name: str
) -> None:
    table = iceberg.create_table(racing, "n.t", ROWS.schema, location=name.format(tmp_path))
    iceberg.append(table, ROWS)
    assert iceberg.delete(table, "id < 10").rows_deleted == 10
    iceberg.upsert(table, ROWS.slice(0, 5), "id")
    iceberg.compact(table)
    assert iceberg.scan(table).to_arrow().num_rows == table.scan().to_arrow().num_rows == 95
    assert iceberg.verify(table) == []
    assert files(tmp_path) == files(path_of(table.location()))


@pytest.mark.parametrize("name", [*(f"file://{{}}/{name}/t" for name in ENDING), "file://localhost{}/t"])
def test_a_table_is_refused_where_pyiceberg_writes_elsewhere(
    racing: RacingCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    location = name.format(tmp_path)
    for options in ({"location": location}, {"properties": {"write.data.path": location}}):
        with pytest.raises(InvalidInputError, match="PyIceberg would write to"):
            iceberg.create_table(racing, "n.t", ROWS.schema, **options)  # type: ignore[arg-type]
    assert files(tmp_path) == set()
    assert not racing.table_exists("n.t")


@pytest.mark.parametrize("location", ["t", "./t", "file:t"])
def test_a_relative_location_is_refused(
    racing: RacingCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    """Another process would look for the table below its own current directory."""
    monkeypatch.chdir(tmp_path)
    for options in ({"location": location}, {"properties": {"write.data.path": location}}):
        with pytest.raises(InvalidInputError, match="expected an absolute path"):
            iceberg.create_table(racing, "n.t", ROWS.schema, **options)  # type: ignore[arg-type]
    assert files(tmp_path) == set()


@pytest.mark.parametrize("name", ENDING)
def test_names_and_warehouses_are_part_of_the_location(tmp_path: Path, name: str) -> None:
    for warehouse, table in ((f"file://{tmp_path}/{name}", "n.t"), (f"file://{tmp_path}/wh", f"n.{name}")):
        catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=warehouse)
        catalog.create_namespace_if_not_exists("n")
        with pytest.raises(InvalidInputError, match="PyIceberg would write to"):
            iceberg.create_table(catalog, table, ROWS.schema)
        catalog.close()
    assert files(tmp_path) == set()


@pytest.mark.parametrize("name", ENDING)
def test_nothing_is_written_to_a_table_that_another_program_put_there(
    racing: RacingCatalog, tmp_path: Path, name: str
) -> None:
    table = iceberg_table(racing, ROWS)
    set_properties(table, {"write.data.path": f"file://{tmp_path}/{name}"})
    before = files(tmp_path)
    for verb in (*WRITES.values(), iceberg.compact):
        with pytest.raises(InvalidInputError, match="PyIceberg would write to"):
            verb(table)
    assert files(tmp_path) == before
    assert iceberg.scan(table).to_arrow().num_rows == 100
