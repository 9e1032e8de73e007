"""Scans of golden Delta tables, which delta-spark and others wrote, return exactly their rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from puffin_fast import arrow, delta, errors
from tests.delta.conftest import ANSWERS, GOLDEN
from tests.delta.tables import Golden, alter, ids
from tests.kit.rows import by_us

SPARK = ["spark_partitioned", "spark_v1_checkpoint", "spark_v2_checkpoint", "spark_many_features"]


def live_ids(table: Path) -> list[int]:
    """The ids that the answers leave, out of the Parquet files, in which they are the first column."""
    found: list[int] = []
    for name, file in ANSWERS[table.name]["files"].items():
        values = pq.ParquetFile(table / name).read()[0].to_pylist()
        found += [value for at, value in enumerate(values) if at not in file["deleted"]]
    return sorted(found)


def test_the_rows_of_each_golden_table_are_the_answers(table: Path) -> None:
    rows, live = by_us(table), live_ids(table)
    assert len(rows) == ANSWERS[table.name]["live_rows"]
    part = {"v": lambda id: f"v{id % 7}", "part": lambda id: f"p {id % 3}"} if "part" in rows[0] else {}
    assert rows == [{"id": id, **{name: value(id) for name, value in part.items()}} for id in live]


def test_the_vectors_of_each_golden_table_are_the_answers(table: Path) -> None:
    found = delta.vectors(table)
    prefix = f"{table}/"
    read = {
        row["file_path"].removeprefix(prefix): (deleted, row["cardinality"], row["n_rows"])
        for row, deleted in zip(found.to_pylist(), arrow.decode(found["blob"]).to_pylist(), strict=True)
    }
    assert read == {
        path: (file["deleted"], len(file["deleted"]), file["rows"])
        for path, file in ANSWERS[table.name]["files"].items()
    }


def test_each_snapshot_says_its_version_and_its_descriptors(table: Path) -> None:
    found, answer = delta.snapshot(table), ANSWERS[table.name]
    assert found.version == answer["version"]
    descriptors = {
        unquote(row["path"]): {k: v for k, v in (row["deletionVector"] or {}).items() if v is not None}
        for row in found.files.to_pylist()
    }
    assert descriptors == {path: file["descriptor"] for path, file in answer["files"].items()}


def test_a_snapshot_and_a_scan_print_one_line(table: Path) -> None:
    version, n_files = ANSWERS[table.name]["version"], len(ANSWERS[table.name]["files"])
    text = f"Snapshot('{table}', version={version}, files={n_files})"
    assert repr(delta.snapshot(table)) == text
    shown = f"Scan({table}, version {version}, row_filter=id > 5, limit=3, columns: id: int"
    assert repr(delta.scan(table, "id > 5", limit=3)).startswith(shown)


def test_actions_come_back_word_for_word(table: Path) -> None:
    found = delta.snapshot(table)
    adds = found.adds(range(found.files.num_rows))
    for add, row in zip(adds, found.files.to_pylist(), strict=True):
        assert (add["path"], add["stats"], add["size"]) == (row["path"], row["stats"], row["size"])
        assert {k: v for k, v in row["deletionVector"].items() if v is not None} == add["deletionVector"]
    if table.name == "spark_iceberg_compat_v3":
        assert all(add["tags"] == {"ICEBERG_COMPAT_VERSION": "3"} for add in adds)


# Time travel -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPARK)
def test_each_version_has_its_own_rows(name: str, golden: Golden) -> None:
    table = golden(name)
    counts = [delta.scan(table, snapshot_id=version).to_arrow().num_rows for version in range(4)]
    assert counts == [0, 300, 270, 257]


def test_a_time_means_the_version_that_was_the_newest_then() -> None:
    table = GOLDEN / "spark_many_features"
    for time, version in (
        (1795322501426, 1),
        (1795322503483, 1),
        (datetime.fromtimestamp(1795322503.484, UTC), 2),
        (1 << 45, 3),
        ("2026-11-22T05:00:00+00:00", 3),
    ):
        assert delta.snapshot(table, as_of=time).version == version
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"as_of": 5}, errors.NotFoundError, "no version at or before"),
        ({"as_of": datetime(2026, 1, 1)}, errors.InvalidInputError, "time zone"),
        ({"as_of": 5, "version": 1}, errors.InvalidInputError, "one of"),
        ({"version": 4}, errors.NotFoundError, "no version 4, the newest is 3"),
        ({"version": 1 << 40}, errors.NotFoundError, f"no version {1 << 40}, the newest is 3"),
    ]
    for options, error, message in wrong:
        with pytest.raises(error, match=message):
            delta.snapshot(table, **options)


# Filters and columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPARK)
@pytest.mark.parametrize(
    ("row_filter", "n_files", "keeps"),
    [
        ("part = 'p 1'", 1, lambda row: row["part"] == "p 1"),
        ("part = 'p 1' and id > 100", 1, lambda row: row["part"] == "p 1" and row["id"] > 100),
        ("id < 0", 0, lambda row: False),
        ("id >= 298", 2, lambda row: row["id"] >= 298),
        ("part is null or id = 4", 3, lambda row: row["id"] == 4),
        ("part in ('p 0', 'p 2') and v = 'v3'", 2, lambda row: row["part"] != "p 1" and row["v"] == "v3"),
        (pc.field("part") != "p 0", 3, lambda row: row["part"] != "p 0"),
        ("part is null", 3, lambda row: False),
    ],
)
def test_a_filter_gives_its_rows_and_leaves_out_files(
    name: str, row_filter: Any, n_files: int, keeps: Callable[[dict[str, Any]], bool]
) -> None:
    table = GOLDEN / name
    assert len(delta.scan(table, row_filter).tasks()) <= n_files
    assert by_us(table, row_filter=row_filter) == list(filter(keeps, by_us(table)))


def test_columns_are_chosen_with_positions_and_files() -> None:
    table = GOLDEN / "spark_partitioned"
    found = delta.scan(table, "id = 11", ("part", "_pos", "_file")).to_arrow().to_pylist()
    ((path, _),) = [(p, f) for p, f in ANSWERS[table.name]["files"].items() if p.startswith("part=p 2")]
    assert found == [{"part": "p 2", "_pos": 3, "_file": f"{table}/{path}"}]
    assert delta.scan(table, selected_fields=("part",)).to_arrow().num_rows == 257
    assert delta.scan(table, selected_fields=()).to_reader().read_all().num_rows == 257
    assert delta.scan(table, limit=5).to_arrow().num_rows == 5
    with pytest.raises(errors.NotFoundError, match="nothing"):
        delta.scan(table, selected_fields=("nothing",))
    with pytest.raises(errors.NotFoundError, match="_row_id"):
        delta.scan(table, selected_fields=("_row_id",))


# Damage ----------------------------------------------------------------------------------------------------


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="no Delta table"):
        delta.snapshot(tmp_path)
    with pytest.raises(errors.NotFoundError, match=r"no Delta table, .*; there is no such folder"):
        delta.snapshot(tmp_path / "gone")
    with pytest.raises(errors.InvalidInputError, match="expected a path"):
        delta.snapshot(5)


def test_a_type_that_is_not_read_is_named(partitioned: Path) -> None:
    alter(
        partitioned,
        "metaData",
        lambda m: m.update(schemaString=m["schemaString"].replace("long", "interval")),
        0,
    )
    with pytest.raises(errors.UnsupportedError, match="column id is of type interval"):
        delta.scan(partitioned)


def test_a_missing_data_file_is_named(partitioned: Path) -> None:
    (file,) = partitioned.glob("part=p 1/*.parquet")
    file.unlink()
    with pytest.raises(errors.NotFoundError, match=file.name):
        delta.scan(partitioned).to_arrow()


def test_files_without_statistics_are_read(partitioned: Path) -> None:
    few = [id for id in live_ids(partitioned) if id < 100]
    alter(partitioned, "add", lambda add: add.pop("stats"), 1, 2, 3)
    assert ids(partitioned, row_filter="id < 100") == few
    wrong_type = '{"numRecords":100,"minValues":{"id":"x"}}'
    alter(partitioned, "add", lambda add: add.update(stats=wrong_type), 1, 2, 3)
    assert len(ids(partitioned)) == 257
    assert ids(partitioned, row_filter="id < 100") == few
    alter(partitioned, "add", lambda add: add.update(stats="{broken"), 3)
    with pytest.raises(errors.CorruptDataError, match="stats of a file"):
        delta.scan(partitioned).to_arrow()


def test_a_wrong_number_of_records_is_refused(partitioned: Path) -> None:
    alter(partitioned, "add", lambda add: add.update(stats='{"numRecords":99}'), 3)
    with pytest.raises(errors.CorruptDataError, match="rows of a data file"):
        delta.scan(partitioned).to_arrow()
