"""Scans of golden Delta tables, which delta-spark and others wrote, return exactly their rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from puffin_fast import arrow, delta, errors
from tests.delta.conftest import ANSWERS, GOLDEN
from tests.delta.tables import alter

SPARK = ["spark_partitioned", "spark_v1_checkpoint", "spark_v2_checkpoint", "spark_many_features"]


def live_rows(table: Path) -> list[dict[str, Any]]:
    """The rows that the answers leave, out of the Parquet files; logical names by position."""
    fields = [field["name"] for field in delta.snapshot(table).delta_schema["fields"]]
    rows: list[dict[str, Any]] = []
    for name, file in ANSWERS[table.name]["files"].items():
        values = pq.ParquetFile(table / name).read().to_pylist()
        gone = set(file["deleted"])
        rows.extend(
            dict(zip(fields, row.values(), strict=False)) for at, row in enumerate(values) if at not in gone
        )
    return sorted(rows, key=lambda row: row["id"])


def test_the_rows_of_each_golden_table_are_the_answers(table: Path) -> None:
    found = delta.scan(table).to_arrow()
    answer = ANSWERS[table.name]
    assert found.num_rows == answer["live_rows"]
    rows = sorted(found.to_pylist(), key=lambda row: row["id"])
    assert [{"id": row["id"]} for row in rows] == [{"id": row["id"]} for row in live_rows(table)]
    if "part" in found.schema.names:
        assert [row["part"] for row in rows] == [f"p {row['id'] % 3}" for row in rows]
        assert [row["v"] for row in rows] == [f"v{row['id'] % 7}" for row in rows]


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
    assert repr(delta.scan(table, "id > 5", limit=3)) == f"DeltaScan({text}, row_filter=id > 5, limit=3)"


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
def test_each_version_has_its_own_rows(name: str, golden: Callable[[str], Path]) -> None:
    table = golden(name)
    counts = [delta.scan(table, version=version).to_arrow().num_rows for version in range(4)]
    assert counts == [0, 300, 270, 257]


def test_a_time_means_the_version_that_was_the_newest_then() -> None:
    table = GOLDEN / "spark_many_features"
    assert delta.snapshot(table, as_of=1795322501426).version == 1
    assert delta.snapshot(table, as_of=1795322503483).version == 1
    assert delta.snapshot(table, as_of=datetime.fromtimestamp(1795322503.484, UTC)).version == 2
    assert delta.snapshot(table, as_of=1 << 45).version == 3
    assert delta.snapshot(table, as_of="2026-11-22T05:00:00+00:00").version == 3
    with pytest.raises(errors.NotFoundError, match="no version at or before"):
        delta.snapshot(table, as_of=5)
    with pytest.raises(errors.InvalidInputError, match="time zone"):
        delta.snapshot(table, as_of=datetime(2026, 1, 1))
    with pytest.raises(errors.InvalidInputError, match="one of"):
        delta.snapshot(table, version=1, as_of=5)


@pytest.mark.parametrize("version", [4, 1 << 40])
def test_a_version_that_is_not_there_is_refused(version: int) -> None:
    with pytest.raises(errors.NotFoundError, match=f"no version {version}, the newest is 3"):
        delta.snapshot(GOLDEN / "spark_partitioned", version=version)


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
    every = delta.scan(table).to_arrow().to_pylist()
    found = delta.scan(table, row_filter)
    assert len(found.tasks()) <= n_files
    key = lambda row: row["id"]  # noqa: E731
    assert sorted(found.to_arrow().to_pylist(), key=key) == sorted(filter(keeps, every), key=key)


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


def test_a_log_with_a_gap_is_refused(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    (table / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(errors.CorruptDataError, match=f"no {2:020d}.json"):
        delta.snapshot(table)
    assert delta.snapshot(table, version=1).version == 1
    (table / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(errors.NotFoundError, match="the log begins at version 1"):
        delta.snapshot(table)


def test_a_checkpoint_stands_for_the_commits_before_it(golden: Callable[[str], Path]) -> None:
    for name in ("spark_v1_checkpoint", "spark_v2_checkpoint"):
        table = golden(name)
        for version in (0, 1, 2):
            (table / "_delta_log" / f"{version:020d}.json").unlink()
        assert delta.scan(table).to_arrow().num_rows == 257
        assert delta.snapshot(table, version=2).version == 2
        (table / "_delta_log" / f"{3:020d}.json").unlink()
        assert delta.scan(table).to_arrow().num_rows == 270
        with pytest.raises(errors.NotFoundError, match="the log begins at version 2"):
            delta.snapshot(table, version=1)


def test_a_last_checkpoint_that_lies_does_no_harm(golden: Callable[[str], Path]) -> None:
    table = golden("spark_v1_checkpoint")
    (table / "_delta_log" / "_last_checkpoint").write_text('{"version":99,"size":5,"parts":7}')
    assert delta.scan(table).to_arrow().num_rows == 257


def test_compacted_logs_and_checksums_are_passed_over(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    (table / "_delta_log" / f"{0:020d}.{2:020d}.compacted.json").write_text("{broken")
    (table / "_delta_log" / f"{3:020d}.crc").write_text("{broken")
    (table / "_delta_log" / f".{4:020d}.json.abc.tmp").write_text("{broken")
    assert delta.scan(table).to_arrow().num_rows == 257


def split_checkpoint(log: Path, parts: int) -> None:
    """A classic checkpoint as one of several parts, the metadata in the last."""
    whole = log / f"{2:020d}.checkpoint.parquet"
    rows = pq.read_table(whole)
    n = rows.num_rows
    order = rows.take(pa.array(sorted(range(n), key=lambda at: rows["add"][at].as_py() is None)))
    for part in range(parts):
        start, stop = n * part // parts, n * (part + 1) // parts
        name = f"{2:020d}.checkpoint.{part + 1:010d}.{parts:010d}.parquet"
        pq.write_table(order.slice(start, stop - start), log / name)
    whole.unlink()


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_a_checkpoint_in_parts_is_the_same(parts: int, golden: Callable[[str], Path]) -> None:
    table = golden("spark_v1_checkpoint")
    before = sorted(delta.scan(table).to_arrow().to_pylist(), key=lambda row: row["id"])
    split_checkpoint(table / "_delta_log", parts)
    for version in (0, 1, 2):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    assert sorted(delta.scan(table).to_arrow().to_pylist(), key=lambda row: row["id"]) == before


def test_a_checkpoint_that_lacks_a_part_is_none(golden: Callable[[str], Path]) -> None:
    table = golden("spark_v1_checkpoint")
    log = table / "_delta_log"
    split_checkpoint(log, 3)
    (log / f"{2:020d}.checkpoint.{2:010d}.{3:010d}.parquet").unlink()
    assert delta.scan(table).to_arrow().num_rows == 257
    (log / f"{1:020d}.json").unlink()
    with pytest.raises(errors.CorruptDataError, match=f"no {1:020d}.json"):
        delta.snapshot(table)


def test_a_torn_checkpoint_and_a_missing_sidecar_are_named(golden: Callable[[str], Path]) -> None:
    table = golden("spark_v1_checkpoint")
    file = table / "_delta_log" / f"{2:020d}.checkpoint.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(errors.CorruptDataError, match="checkpoint"):
        delta.snapshot(table)
    table = golden("spark_v2_checkpoint")
    shutil.rmtree(table / "_delta_log" / "_sidecars")
    with pytest.raises(errors.NotFoundError, match="_sidecars"):
        delta.snapshot(table)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "line 4: expected a JSON object"),
        ("5", "line 4: expected object, found int"),
        ("null", "line 4: expected object, found null"),
        (
            '{"add":{"path":"a"},"remove":{"path":"b"}}',
            "line 4: expected one action, found both add and remove",
        ),
        ('{"add":{"path":5}}', "add.path of line 4: expected str, found int"),
        ('{"add":{"size":5,"partitionValues":{}}}', "expected a path|add of line 4: expected a field path"),
        (
            '{"add":{"path":"a","deletionVector":{"storageType":"u","offset":"x"}}}',
            "deletionVector.offset of line 4",
        ),
    ],
)
def test_a_commit_that_is_no_commit_is_named(line: str, message: str, golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    file = table / "_delta_log" / f"{3:020d}.json"
    file.write_text(file.read_text().rstrip("\n") + "\n" + line + "\n")
    with pytest.raises(errors.CorruptDataError, match=message) as caught:
        delta.snapshot(table)
    assert str(file) in str(caught.value)


def test_a_future_protocol_is_refused_by_name(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    alter(table, "protocol", lambda p: p["readerFeatures"].append("teleportation"), 0)
    with pytest.raises(errors.UnsupportedError, match="teleportation"):
        delta.snapshot(table)
    alter(table, "protocol", lambda p: p.update(minReaderVersion=4), 0)
    with pytest.raises(errors.UnsupportedError, match="reader version 4"):
        delta.snapshot(table)


def test_a_type_that_is_not_read_is_named(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    alter(
        table, "metaData", lambda m: m.update(schemaString=m["schemaString"].replace("long", "interval")), 0
    )
    with pytest.raises(errors.UnsupportedError, match="column id is of type interval"):
        delta.scan(table)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.update(pathOrInlineDv="!!!" + d["pathOrInlineDv"][:-1] + '"'), "Z85"),
        (lambda d: d.update(pathOrInlineDv="abc"), "Z85"),
        (lambda d: d.update(cardinality=22), "cardinality"),
        (lambda d: d.update(sizeInBytes=77), "length of magic and vector|CRC|beyond the end"),
        (lambda d: d.update(offset=2), "magic|length|beyond the end"),
        (lambda d: d.update(offset=1 << 30), "beyond the end"),
        (lambda d: d.update(storageType="x"), "found 'x'"),
        (lambda d: d.pop("sizeInBytes"), "descriptor"),
    ],
)
def test_a_descriptor_that_lies_is_refused(
    edit: Callable[[dict[str, Any]], object], message: str, golden: Callable[[str], Path]
) -> None:
    table = golden("spark_partitioned")
    alter(table, "add", lambda add: edit(add["deletionVector"]), 3)
    with pytest.raises(errors.PuffinFastError, match=message):
        delta.scan(table).to_arrow()


def test_an_offset_that_misses_means_the_record(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    alter(table, "add", lambda add: add["deletionVector"].pop("offset"), 3)
    assert delta.scan(table).to_arrow().num_rows == 257


def test_torn_and_missing_vector_files_are_named(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    for file in table.glob("*.bin"):
        data = file.read_bytes()
        file.write_bytes(data[:40])
        with pytest.raises(errors.CorruptDataError, match=file.name):
            delta.scan(table).to_arrow()
        file.unlink()
        with pytest.raises(errors.NotFoundError, match=file.name):
            delta.scan(table).to_arrow()
        file.write_bytes(data)


def test_a_position_past_the_end_is_refused(golden: Callable[[str], Path]) -> None:
    from puffin_fast import dv
    from puffin_fast.bitmap import PositionBitmap

    table = golden("hand_inline")
    text, size = dv.delta.encode_inline(PositionBitmap.from_positions([5, (1 << 32) + 3]))
    alter(
        table,
        "add",
        lambda add: add["deletionVector"].update(pathOrInlineDv=text, sizeInBytes=size, cardinality=2),
        2,
    )
    with pytest.raises(errors.CorruptDataError, match=r"less than 1000 rows.*4294967299"):
        delta.scan(table).to_arrow()
    with pytest.raises(errors.CorruptDataError, match="less than 1000 rows"):
        delta.vectors(table)


def test_a_missing_data_file_is_named(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    (file,) = table.glob("part=p 1/*.parquet")
    file.unlink()
    with pytest.raises(errors.NotFoundError, match=file.name):
        delta.scan(table).to_arrow()


def test_files_without_statistics_are_read(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    for version in (1, 2, 3):
        alter(table, "add", lambda add: add.pop("stats"), version)
    assert delta.scan(table, "id < 100").to_arrow().num_rows == len(
        [row for row in live_rows(table) if row["id"] < 100]
    )
    for version in (1, 2, 3):
        alter(
            table, "add", lambda add: add.update(stats='{"numRecords":100,"minValues":{"id":"x"}}'), version
        )
    assert delta.scan(table).to_arrow().num_rows == 257
    assert delta.scan(table, "id < 100").to_arrow().num_rows == 86
    alter(table, "add", lambda add: add.update(stats="{broken"), 3)
    with pytest.raises(errors.CorruptDataError, match="stats of a file"):
        delta.scan(table).to_arrow()


def test_a_wrong_number_of_records_is_refused(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    alter(table, "add", lambda add: add.update(stats='{"numRecords":99}'), 3)
    with pytest.raises(errors.CorruptDataError, match="rows of a data file"):
        delta.scan(table).to_arrow()
