"""Delta tables on an object store (S3 by moto); the requests are counted."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import delta, errors
from puffin_fast.delta.log.segment import commit_path
from tests.conftest import require_module
from tests.delta.conftest import GOLDEN
from tests.iceberg.scan.test_s3 import KEYS, Store, store

__all__ = ["store"]


@pytest.fixture
def s3(store: Store) -> Any:
    """s3fs, which writes an object only where there is none (`If-None-Match`)."""
    module = require_module("s3fs")
    return module.S3FileSystem(
        key=KEYS["access-key-id"],
        secret=KEYS["secret-access-key"],
        endpoint_url=store.endpoint,
        skip_instance_cache=True,
    )


def upload(s3: Any, table: Path, to: str) -> str:
    for file in table.rglob("*"):
        if file.is_file():
            s3.pipe_file(f"{to}/{file.relative_to(table)}", file.read_bytes())
    return f"s3://{to}"


def ids(table: str, s3: Any) -> list[int]:
    return sorted(delta.scan(table, selected_fields=("id",), filesystem=s3).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("name", ["spark_many_features", "spark_v2_checkpoint", "spark_partitioned"])
def test_a_table_on_s3_is_read_and_written_by_every_verb(name: str, s3: Any, tmp_path: Path) -> None:
    table = upload(s3, GOLDEN / name, f"lake/{tmp_path.name}/t")
    before = ids(table, s3)
    assert len(before) == 257
    assert delta.delete(table, "id < 30", filesystem=s3).rows_deleted == sum(i < 30 for i in before)
    assert delta.delete_keys(table, pa.table({"id": [31, 5000]}), "id", filesystem=s3).rows_deleted == 1
    assert delta.update(table, "id = 41", {"v": "new"}, filesystem=s3).rows_updated == 1
    data = pa.table({"id": [43, 5000], "v": ["a", "b"], "part": ["p 0", "p 1"]})
    assert delta.upsert(table, data, "id", filesystem=s3).rows_inserted == 1
    assert delta.purge(table, min_deleted=1e-9, filesystem=s3).data_files > 0
    assert ids(table, s3) == [i for i in before if i >= 30 and i != 31] + [5000]
    rows = delta.scan(table, "id = 41 or id = 43", ("v",), filesystem=s3).to_arrow()
    assert sorted(rows["v"].to_pylist()) == ["a", "new"]
    assert delta.verify(table, filesystem=s3) == []
    assert delta.orphan_files(table, filesystem=s3).num_rows == 0


@pytest.mark.slow
def test_of_many_writers_on_s3_none_loses_a_delete(s3: Any, tmp_path: Path) -> None:
    table = upload(s3, GOLDEN / "spark_partitioned", f"lake/{tmp_path.name}/t")
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for row in range(first, 130, 4):
                delta.delete(table, f"id = {row}", on_conflict="merge", filesystem=s3)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(100, 104)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert not set(ids(table, s3)) & set(range(100, 130))
    assert delta.verify(table, filesystem=s3) == []


def test_a_commit_without_conditional_writes_is_refused(store: Store, s3: Any, tmp_path: Path) -> None:
    table = upload(s3, GOLDEN / "spark_partitioned", f"lake/{tmp_path.name}/t")
    arrow = pa.fs.S3FileSystem(
        access_key=KEYS["access-key-id"],
        secret_key=KEYS["secret-access-key"],
        endpoint_override=store.endpoint,
    )
    before = s3.find(table)
    path = table.removeprefix("s3://")
    assert delta.scan(path, filesystem=arrow).to_arrow().num_rows == 257
    with pytest.raises(errors.UnsupportedError, match="no conditional writes"):
        delta.delete(path, "id < 60", filesystem=arrow)
    s3.invalidate_cache()
    assert [path for path in s3.find(table) if path[-1] != "/"] == before


def test_a_store_that_denies_writes_leaves_the_table_as_it_was(store: Store, s3: Any, tmp_path: Path) -> None:
    table = upload(s3, GOLDEN / "spark_partitioned", f"lake/{tmp_path.name}/t")
    before = ids(table, s3)
    store.denied.update({"PUT", "POST"})
    try:
        with pytest.raises((errors.PuffinFastError, OSError)):
            delta.delete(table, "id < 60", filesystem=s3)
    finally:
        store.denied.clear()
    assert ids(table, s3) == before
    assert not s3.exists(f"{table}/{commit_path(4)}")


def test_vectors_that_are_neighbours_are_read_together(store: Store, s3: Any, tmp_path: Path) -> None:
    table = upload(s3, GOLDEN / "spark_partitioned", f"lake/{tmp_path.name}/t")
    delta.delete(table, "id >= 100 and id < 160", filesystem=s3)
    vectors = delta.vectors(table, filesystem=s3)
    assert vectors.num_rows == 3
    store.requests.clear()
    delta.vectors(table, filesystem=s3)
    reads = [r for r in store.requests if r.method == "GET" and r.path.endswith(".bin")]
    assert len(reads) == 1


def test_the_log_says_the_sizes_of_data_files(store: Store, s3: Any, tmp_path: Path) -> None:
    table = upload(s3, GOLDEN / "spark_partitioned", f"lake/{tmp_path.name}/t")
    base = delta.snapshot(table, filesystem=s3)
    expected = ids(table, s3)
    store.requests.clear()
    assert sorted(delta.scan(base, selected_fields=("id",)).to_arrow()["id"].to_pylist()) == expected
    data = [request for request in store.requests if request.path.endswith(".parquet")]
    assert {request.method for request in data} == {"GET"}
    assert len({request.path for request in data}) == base.files.num_rows
    assert len(data) <= 2 * base.files.num_rows  # the footer and the columns


def test_a_size_in_the_log_that_is_wrong_changes_no_row(store: Store, s3: Any, tmp_path: Path) -> None:
    table = upload(s3, GOLDEN / "spark_partitioned", f"lake/{tmp_path.name}/t")
    expected = ids(table, s3)
    for size in (0, 1, 10**9):
        for path in s3.glob(f"{table.removeprefix('s3://')}/_delta_log/*.json"):
            actions = [json.loads(line) for line in s3.cat_file(path).splitlines()]
            for action in actions:
                if "add" in action:
                    action["add"]["size"] = size
            s3.pipe_file(path, "\n".join(map(json.dumps, actions)).encode())
        assert ids(table, s3) == expected
