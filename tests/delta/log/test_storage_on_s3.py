"""Delta tables on an object store (S3 by moto); the requests are counted."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import delta, errors, open_table
from puffin_fast.delta.log.segment import commit_path
from puffin_fast.delta.log.storage import storage_of
from tests.conftest import require_module
from tests.delta.conftest import GOLDEN
from tests.delta.tables import ids as ids_of
from tests.kit.cases import each
from tests.kit.object_store import KEYS, LATE_S, Store, store
from tests.kit.tables import files_of

__all__ = ["store"]


def s3fs_of(store: Store, **options: Any) -> Any:
    """s3fs, which writes an object only where there is none (`If-None-Match`)."""
    module = require_module("s3fs")
    return module.S3FileSystem(
        key=KEYS["access-key-id"],
        secret=KEYS["secret-access-key"],
        endpoint_url=store.endpoint,
        skip_instance_cache=True,
        **options,
    )


@pytest.fixture
def s3(store: Store) -> Any:
    return s3fs_of(store)


def upload(s3: Any, table: Path, to: str) -> str:
    for file in files_of(table):
        s3.pipe_file(f"{to}/{file.relative_to(table)}", file.read_bytes())
    return f"s3://{to}"


@pytest.fixture
def table(s3: Any, tmp_path: Path) -> str:
    """The golden table ``spark_partitioned`` on S3."""
    return upload(s3, GOLDEN / "spark_partitioned", f"lake/{tmp_path.name}/t")


def ids(table: str, s3: Any) -> list[int]:
    return ids_of(open_table(table, filesystem=s3))


@pytest.mark.parametrize("name", ["spark_many_features", "spark_v2_checkpoint", "spark_partitioned"])
def test_a_table_on_s3_is_read_and_written_by_every_verb(name: str, s3: Any, tmp_path: Path) -> None:
    table = upload(s3, GOLDEN / name, f"lake/{tmp_path.name}/t")
    before = ids(table, s3)
    assert len(before) == 257
    assert delta.delete(open_table(table, filesystem=s3), "id < 30").rows_deleted == sum(
        i < 30 for i in before
    )
    assert (
        delta.delete_keys(open_table(table, filesystem=s3), pa.table({"id": [31, 5000]}), "id").rows_deleted
        == 1
    )
    assert delta.update(open_table(table, filesystem=s3), "id = 41", {"v": "new"}).rows_updated == 1
    assert delta.upsert(open_table(table, filesystem=s3), ROWS, "id").rows_inserted == 1
    assert delta.purge(open_table(table, filesystem=s3), min_deleted=1e-9).data_files > 0
    assert ids(table, s3) == [i for i in before if i >= 30 and i != 31] + [5000]
    rows = delta.scan(open_table(table, filesystem=s3), "id = 41 or id = 43", ("v",)).to_arrow()
    assert sorted(rows["v"].to_pylist()) == ["a", "new"]
    assert delta.verify(open_table(table, filesystem=s3)) == []
    assert delta.orphan_files(open_table(table, filesystem=s3)).num_rows == 0


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_sidecars_of_absolute_uris_are_read_and_kept(scheme: str, s3: Any, tmp_path: Path) -> None:
    table = upload(s3, GOLDEN / "spark_v2_checkpoint", f"lake/{tmp_path.name}/t")
    log = f"{table}/_delta_log"
    (checkpoint,) = s3.glob(f"{log}/*.checkpoint.*.json")
    lines = [json.loads(line) for line in s3.cat_file(checkpoint).splitlines()]
    for action in (line["sidecar"] for line in lines if "sidecar" in line):
        name = action["path"]
        s3.mv(f"{log}/_sidecars/{name}", f"{table}/side cars/{name}")
        action["path"] = f"{scheme}://lake/{tmp_path.name}/t/side%20cars/{name}"
    s3.pipe_file(checkpoint, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
    for version in range(3):
        s3.rm_file(f"{log}/{version:020d}.json")
    assert len(ids(table, s3)) == 257
    assert len(delta.orphan_files(open_table(table, filesystem=s3), older_than=timedelta(days=-1))) == 0
    assert delta.delete(open_table(table, filesystem=s3), "id < 30").rows_deleted > 0


def test_a_missing_bucket_and_a_missing_folder_are_named(s3: Any) -> None:
    with pytest.raises(errors.NotFoundError, match=r"expected a table, .*; there is no bucket gone;"):
        delta.scan(open_table("s3://gone/t", filesystem=s3))
    with pytest.raises(errors.NotFoundError, match=r"expected a table, .*; there is no such folder;"):
        delta.scan(open_table("s3://lake/gone", filesystem=s3))


@pytest.mark.slow
def test_of_many_writers_on_s3_none_loses_a_delete(s3: Any, table: str) -> None:
    def work(first: int) -> None:
        for row in range(first, 130, 4):
            delta.delete(open_table(table, filesystem=s3), f"id = {row}", on_conflict="merge")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(100, 104)))
    assert not set(ids(table, s3)) & set(range(100, 130))
    assert delta.verify(open_table(table, filesystem=s3)) == []


def test_a_commit_without_conditional_writes_is_refused(store: Store, s3: Any, table: str) -> None:
    arrow = pa.fs.S3FileSystem(
        access_key=KEYS["access-key-id"],
        secret_key=KEYS["secret-access-key"],
        endpoint_override=store.endpoint,
    )
    before = s3.find(table)
    path = table.removeprefix("s3://")
    assert delta.scan(open_table(path, filesystem=arrow)).to_arrow().num_rows == 257
    with pytest.raises(errors.UnsupportedError, match="no conditional writes"):
        delta.delete(open_table(path, filesystem=arrow), "id < 60")
    s3.invalidate_cache()
    assert [path for path in s3.find(table) if path[-1] != "/"] == before


def test_a_store_that_denies_writes_leaves_the_table_as_it_was(store: Store, s3: Any, table: str) -> None:
    before = ids(table, s3)
    store.denied.update({"PUT", "POST"})
    try:
        with pytest.raises((errors.PuffinFastError, OSError)):
            delta.delete(open_table(table, filesystem=s3), "id < 60")
    finally:
        store.denied.clear()
    assert ids(table, s3) == before
    assert not s3.exists(f"{table}/{commit_path(4)}")


ROWS = pa.table({"id": [43, 5000], "v": ["a", "b"], "part": ["p 0", "p 1"]})
WRITES: dict[str, Callable[[str, Any], Any]] = {
    "delete": lambda table, s3: delta.delete(open_table(table, filesystem=s3), "id < 60"),
    "merge": lambda table, s3: delta.delete(open_table(table, filesystem=s3), "id < 60", on_conflict="merge"),
    "upsert": lambda table, s3: delta.upsert(open_table(table, filesystem=s3), ROWS, "id"),
    "purge": lambda table, s3: delta.purge(open_table(table, filesystem=s3), min_deleted=1e-9),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_commit_whose_answer_is_lost_has_happened(write: str, store: Store, s3: Any, table: str) -> None:
    """The listing that s3fs keeps does not have the version; a second request finds that it exists."""
    before = delta.snapshot(table, filesystem=s3).version
    store.faults[commit_path(before + 1)] = ["lost"]
    done = WRITES[write](table, s3)
    assert done.commit.id == before + 1
    assert not store.faults[commit_path(before + 1)]
    fresh = s3fs_of(store)
    assert delta.snapshot(table, filesystem=fresh).version == before + 1
    found = ids(table, fresh)
    if write == "upsert":
        assert 5000 in found
    elif write != "purge":
        assert min(found) >= 60
    assert delta.verify(open_table(table, filesystem=fresh)) == []


@pytest.fixture
def once(store: Store) -> Any:
    """s3fs without repetitions of its own."""
    found = s3fs_of(store, use_listings_cache=False, config_kwargs={"retries": {"max_attempts": 0}})
    found.retries = 1
    return found


@pytest.mark.parametrize(
    ("faults", "happens"),
    [
        (["lost"], True),
        (["late"], True),
        (["lost", *["403"] * 9], True),
        (["lost", *["404"] * 9], True),
        (["409"], True),
        (["403"], True),
        (["late"] * 9, None),
        (["late", *["403"] * 9], None),
        (["late", *["400"] * 9], None),
        (["403"] * 9, None),
        (["lost", *["501"] * 9], True),
        (["501"] * 9, None),
    ],
    ids=lambda found: "-".join(found[:2]) if isinstance(found, list) else str(found),
)
def test_a_commit_that_the_store_may_have_written_keeps_its_files(
    faults: list[str], happens: bool | None, store: Store, s3: Any, once: Any, table: str
) -> None:
    """Whatever the last answer was."""
    before = delta.snapshot(table, filesystem=s3)
    path = commit_path(before.version + 1)
    store.faults[path] = faults[:]
    try:
        if happens:
            assert WRITES["upsert"](table, once).commit.id == before.version + 1
        else:
            words = "it happened if the file has, or gets, txnId"
            with pytest.raises(errors.CommitUnknownError, match=words):
                WRITES["upsert"](table, once)
    finally:
        store.faults.clear()
    time.sleep(2 * LATE_S * ("late" in faults))
    fresh = s3fs_of(store)
    after = delta.snapshot(table, filesystem=fresh)
    assert after.version == before.version + (happens or "late" in faults)
    assert len(ids(table, fresh)) == 257 + after.version - before.version
    assert delta.verify(open_table(table, filesystem=fresh)) == []


@each("scheme", ["s3", "s3a", "s3n", "S3"])
def test_spellings_of_the_scheme(scheme: str, s3: Any, table: str) -> None:
    assert len(ids(table.replace("s3", scheme, 1), s3)) == 257


@pytest.mark.parametrize("name", ["t[1]", "t*", "t?", "[!x]", "a b%20ü"])
def test_characters_of_a_folder_are_no_patterns(name: str, s3: Any, tmp_path: Path) -> None:
    lake = f"lake/{tmp_path.name}"
    for neighbour in ("t1", "tx", "y"):
        upload(s3, GOLDEN / "hand_prefix", f"{lake}/{neighbour}")
    table = upload(s3, GOLDEN / "spark_partitioned", f"{lake}/{name}")
    before = ids(table, s3)
    assert delta.snapshot(table, filesystem=s3).version == 3
    assert delta.delete(open_table(table, filesystem=s3), "id < 60").rows_deleted == sum(
        i < 60 for i in before
    )
    assert ids(table, s3) == [i for i in before if i >= 60]
    assert delta.orphan_files(open_table(table, filesystem=s3)).num_rows == 0
    assert delta.verify(open_table(table, filesystem=s3)) == []


def test_the_uri_of_a_table_object_is_percent_encoded(s3: Any) -> None:
    """That of deltalake, whose client does not work beside a server in the same process."""
    table = SimpleNamespace(table_uri="s3://lake/a%20b%2520/%C3%BC/")
    assert storage_of(table, s3).root == "s3://lake/a b%20/ü"
    assert storage_of("s3://lake/a%20b", s3).root == "s3://lake/a%20b"


def test_vectors_that_are_neighbours_are_read_together(store: Store, s3: Any, table: str) -> None:
    delta.delete(open_table(table, filesystem=s3), "id >= 100 and id < 160")
    vectors = delta.vectors(table, filesystem=s3)
    assert vectors.num_rows == 3
    store.requests.clear()
    delta.vectors(table, filesystem=s3)
    reads = [r for r in store.requests if r.method == "GET" and r.path.endswith(".bin")]
    assert len(reads) == 1


def test_the_log_says_the_sizes_of_data_files(store: Store, s3: Any, table: str) -> None:
    base = delta.snapshot(table, filesystem=s3)
    expected = ids(table, s3)
    store.requests.clear()
    assert sorted(delta.scan(base, selected_fields=("id",)).to_arrow()["id"].to_pylist()) == expected
    data = [request for request in store.requests if request.path.endswith(".parquet")]
    assert {request.method for request in data} == {"GET"}
    assert len({request.path for request in data}) == base.files.num_rows
    assert len(data) <= 2 * base.files.num_rows  # the footer and the columns


def test_a_size_in_the_log_that_is_wrong_changes_no_row(store: Store, s3: Any, table: str) -> None:
    expected = ids(table, s3)
    for size in (0, 1, 10**9):
        for path in s3.glob(f"{table}/_delta_log/*.json"):
            s3.pipe_file(path, re.sub(rb'"size":\d+', b'"size":%d' % size, s3.cat_file(path)))
        assert ids(table, s3) == expected
