"""Jobs see the rows of one computation of a DataFrame, also if Spark loses what it cached and computes it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta, iceberg
from puffin_fast import spark as ps
from tests.conftest import require_module
from tests.kit.tables import files_of
from tests.spark.table.tables import FILES, ROWS, N, made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
GIVEN = 50
STEP = N // FILES


def changing(spark: SparkSession, folder: Path) -> DataFrame:
    """Rows of ids that lie in another data file each time that Spark computes them."""

    def computed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = len(list(folder.iterdir()))
        (folder / str(number)).touch()
        first = number % FILES * STEP
        for batch in batches:
            ids = [first + i for i in batch[0].to_pylist()]
            columns = [pa.array(ids), pa.array([f"computed {number}"] * len(ids)), pa.array(ids, pa.int32())]
            yield pa.RecordBatch.from_arrays(columns, names=ROWS.schema.names)

    folder.mkdir()
    return spark.range(0, GIVEN, 1, 1).mapInArrow(computed, "id long, word string, small int")


@pytest.fixture
def losing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each of its actions, Spark loses all cached blocks, as with the executors that held them."""
    classic = type(spark.range(1))
    collect: Callable[[DataFrame], pa.Table] = classic.toArrow

    def losing_first(df: DataFrame) -> pa.Table:
        context: Any = spark.sparkContext
        blocks = context._jvm.org.apache.spark.SparkEnv.get().blockManager().master()
        for number in list(context._jsc.getPersistentRDDs().keySet()):
            blocks.removeRdd(number, True)
        return collect(df)

    monkeypatch.setattr(classic, "toArrow", losing_first)


def one_computation(ids: list[int]) -> bool:
    first = min(ids)
    return first % STEP == 0 and sorted(ids) == list(range(first, first + GIVEN))


@pytest.mark.usefixtures("losing")
def test_an_upsert_gives_each_key_once(spark: SparkSession, racing: RacingCatalog, tmp_path: Path) -> None:
    table = made(racing, "n")
    before = files_of(table)
    for number, options in enumerate(
        ({"dry_run": True}, {}, {"order_column": "small", "update_columns": ["word"]})
    ):
        result = ps.upsert(changing(spark, tmp_path / str(number)), table, "id", **options)
        if options.get("dry_run"):
            assert files_of(table) == before
            continue
        assert (result.rows_updated, result.rows_inserted) == (GIVEN, 0)
        rows = iceberg.scan(table).to_arrow().to_pylist()
        assert sorted(row["id"] for row in rows) == list(range(N))
        new = [row for row in rows if str(row["word"]).startswith("computed")]
        assert one_computation([row["id"] for row in new])
        assert len({row["word"] for row in new}) == 1
        assert iceberg.verify(table) == []
        assert not [path for path in files_of(table) if path.suffix == ".arrow"]
        iceberg.update(table, "word like 'computed%'", {"word": "old"})


@pytest.mark.usefixtures("losing")
def test_a_delete_by_keys_deletes_those_of_one_computation(
    spark: SparkSession, racing: RacingCatalog, tmp_path: Path
) -> None:
    table = made(racing, "n")
    result: Any = ps.delete_keys(changing(spark, tmp_path / "keys"), table, "id", broadcast_keys=0)
    left = iceberg.scan(table).to_arrow()["id"].to_pylist()
    assert result.rows_deleted == GIVEN
    assert one_computation(list(set(range(N)) - set(left)))
    assert not [path for path in files_of(table) if path.suffix == ".arrow"]


@pytest.mark.usefixtures("losing")
def test_a_delete_by_keys_from_a_delta_table_too(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    for start in range(0, N, STEP):
        require_module("deltalake").write_deltalake(str(path), ROWS.slice(start, STEP), mode="append")
    delta.enable(path)
    keys = changing(spark, tmp_path / "keys")
    result: Any = ps.delete_keys(keys, path, "id", broadcast_keys=0, job_id="nightly")
    left = delta.scan(path).to_arrow()["id"].to_pylist()
    assert result.rows_deleted == GIVEN
    assert one_computation(list(set(range(N)) - set(left)))
    assert not list(path.rglob("*.arrow"))
    killed = path / "nightly-0123456789ab" / "nightly-0123456789ab-00000-9-0000.arrow"
    killed.parent.mkdir()
    killed.touch()
    assert ps.remove_job_files(path, "nightly") == [str(killed)]


@pytest.mark.usefixtures("losing")
def test_a_conflict_does_not_compute_the_rows_again(
    spark: SparkSession, racing: RacingCatalog, tmp_path: Path
) -> None:
    table = made(racing, "n")
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.delete(other, "id = 7"))
    result = ps.upsert(changing(spark, tmp_path / "rows"), table, "id", on_conflict="merge")
    assert (result.rows_updated, result.rows_inserted) == (GIVEN - 1, 1)
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == list(range(N))
    assert len(list((tmp_path / "rows").iterdir())) == 1
