"""`pf.create_table` and `pf.open_table`: tables in folders, with nothing to set up."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import puffin_fast as pf
from tests.kit.cases import each

ROWS = [{"id": n, "day": n % 3} for n in range(30)]


@pytest.mark.parametrize("format", ["Iceberg", "Delta"])
@pytest.mark.parametrize("spec", [(), ("day",)])
def test_a_table_in_a_folder_is_created_changed_and_opened_again(
    tmp_path: Path, format: str, spec: tuple[str, ...]
) -> None:
    path = tmp_path / "lake" / "a.b c"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pf.EngineSupportWarning)
        table = pf.create_table(path, ROWS, format=format, partition_spec=spec)  # type: ignore[arg-type]
    assert (table.append(ROWS).rows_appended, table.delete("day = 1").rows_deleted) == (30, 10)
    again = pf.open_table(path)
    assert (again.format, again.upsert([{"id": 1, "day": 0}], "id").rows_inserted) == (format, 1)
    with pytest.raises(pf.InvalidInputError, match="already exists"):
        pf.create_table(path, ROWS, format=format)  # type: ignore[arg-type]
    assert pf.create_table(path, ["x"], format=format, if_not_exists=True).delete("id = 1").rows_deleted == 1  # type: ignore[arg-type]


@each(
    "path, options, kind, said",
    [
        (
            "s3://lake/t",
            {},
            pf.UnsupportedError,
            "a table of Iceberg in a folder is one of a local file system",
        ),
        ("/t", {}, pf.InvalidInputError, "expected a folder below another one"),
        ("lake/t", {"format": "Hudi"}, pf.InvalidInputError, "expected 'Iceberg' or 'Delta', found 'Hudi'"),
        ("lake/t", {"format": "Lance"}, pf.InvalidInputError, "expected 'Iceberg' or 'Delta', found 'Lance'"),
    ],
)
def test_a_table_that_cannot_be_created_is_refused(
    path: str, options: dict[str, str], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        pf.create_table(path, ROWS, **options)  # type: ignore[arg-type]


def test_a_folder_of_another_format_or_below_a_file_is_refused(tmp_path: Path) -> None:
    pf.create_table(tmp_path / "a" / "t", ROWS)
    with pytest.raises(pf.InvalidInputError, match="expected a new folder, found a table of Iceberg"):
        pf.create_table(tmp_path / "a" / "t", ROWS, format="Delta")
    (tmp_path / "file").touch()
    with pytest.raises(pf.InvalidInputError, match="expected a folder that can be created"):
        pf.create_table(tmp_path / "file" / "t", ROWS)


def test_methods_of_other_libraries_name_the_one_here(tmp_path: Path) -> None:
    table = pf.create_table(tmp_path / "a" / "t", ROWS)
    for name, said in (("merge", "write upsert"), ("to_pandas", r"write scan\(\)\.to_pandas\(\)")):
        with pytest.raises(AttributeError, match=said):
            getattr(table, name)
    assert not hasattr(table, "nonsense")


@each(
    "table, kind, said",
    [
        (
            7,
            pf.InvalidInputError,
            "table: expected a table or dataset, a catalog and a name, a path or a URI, found 7",
        ),
        ("shop.orders", pf.InvalidInputError, r"open_table\(catalog, name\) opens a table by its name"),
        ("lake/none", pf.NotFoundError, r"there is no such folder; create_table\(path, schema\) creates one"),
    ],
)
def test_what_is_no_table_is_refused_with_what_to_type(
    table: object, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        pf.open_table(table)
