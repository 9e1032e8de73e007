"""Two processes that delete from the same data files, round after round: no delete is lost.

``PUFFIN_FAST_ROUNDS`` says how many rows each of them deletes, one commit after the other; 10 by default.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError
from puffin_fast.iceberg.commit.request import JOB_ID
from puffin_fast.verbs.options import OnConflict
from tests.iceberg.conftest import processes
from tests.interop.conftest import attached, only_totals_are_wrong

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

ROUNDS = int(os.environ.get("PUFFIN_FAST_ROUNDS", "10"))

N = 2 * ROUNDS + 20
"""Rows of the table, in two data files: even ids and odd ids, so that every round is about both."""

PROPERTIES = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "5",
    "write.delete.target-file-size-bytes": "1",  # as the README advises where DuckDB deletes too
}

pytestmark = pytest.mark.slow


def two_files(catalog: Catalog, name: str) -> Table:
    table = iceberg.create_table(catalog, name, pa.schema([("id", pa.int64())]), properties=PROPERTIES)
    for first in (0, 1):
        iceberg.append(table, pa.table({"id": range(first, N, 2)}))
    return table


def sharing(number: int, writer: int) -> int:
    """The row that a writer deletes in a round: each goes from one data file to the other."""
    return 2 * number + (number + writer) % 2


def delete_all(catalog: Catalog, name: str, writer: int, on_conflict: OnConflict) -> int:
    """Deletes a row in each round, trying again as long as it takes; returns the conflicts."""
    table, conflicts = catalog.load_table(name), 0
    for number in range(ROUNDS):
        while True:
            try:
                where = f"id = {sharing(number, writer)}"
                done = iceberg.delete(table, where, on_conflict=on_conflict, job_id=f"{writer}-{number}")
            except ConflictError:
                conflicts += 1
                continue
            assert done.rows_deleted == 1
            break
    return conflicts


def elsewhere(kind: type[Catalog], properties: dict[str, str], name: str, on_conflict: OnConflict) -> int:
    """`delete_all` as the writer in the other process."""
    catalog = kind("racing", **properties)
    try:
        return delete_all(catalog, name, 1, on_conflict)
    finally:
        catalog.close()


@pytest.fixture(scope="module")
def process() -> Iterator[ProcessPoolExecutor]:
    """Another process, up and ready."""
    with processes(1) as pool:
        pool.submit(sharing, 0, 0).result()  # imports this module
        yield pool


def whole(table: Table) -> list[int]:
    """The ids, after each snapshot was found to hold one vector per data file at most, and no delete less.

    Without snapshots of DuckDB, `verify` must find nothing.
    """
    table.refresh()
    live = []
    for snapshot in table.metadata.snapshots:
        tasks = iceberg.plan_files(table, snapshot_id=snapshot.snapshot_id).tasks  # refuses two vectors
        live.append(sum(t.data.record_count - (t.vector.record_count if t.vector else 0) for t in tasks))
    assert live[:2] == [N // 2, N]
    assert all(after <= before for before, after in itertools.pairwise(live[1:]))
    numbers = [snapshot.sequence_number for snapshot in table.metadata.snapshots]
    assert numbers == list(range(1, len(numbers) + 1))
    theirs = [s.snapshot_id for s in table.metadata.snapshots[2:] if s.summary and s.summary[JOB_ID] is None]
    only_totals_are_wrong(table, theirs)
    found: list[int] = sorted(iceberg.scan(table).to_arrow()["id"].to_pylist())
    assert len(found) == live[-1]
    return found


@pytest.mark.jar
@pytest.mark.parametrize("on_conflict", ["refuse", "merge"])
def test_two_processes_on_a_rest_server_lose_nothing(
    rest_catalog: RestCatalog, rest_namespace: str, process: ProcessPoolExecutor, on_conflict: OnConflict
) -> None:
    name = f"{rest_namespace}.t"
    table = two_files(rest_catalog, name)
    properties = {"uri": rest_catalog.properties["uri"]}
    other = process.submit(elsewhere, RestCatalog, properties, name, on_conflict)
    conflicts = delete_all(rest_catalog, name, 0, on_conflict), other.result()
    print(f"{ROUNDS} rounds, {on_conflict}: conflicts {conflicts}")
    assert whole(table) == list(range(2 * ROUNDS, N))
    assert len(table.metadata.snapshots) == 2 + 2 * ROUNDS


TRANSACTION = "POST /v1/{prefix}/transactions/commit"


@pytest.fixture
def one_table_at_a_time(rest_catalog: RestCatalog) -> Iterator[str]:
    """The REST server's address without its transactions of several tables, which DuckDB would use.

    There Iceberg 1.11's server answers that all is well when another commit came first between its check and
    its commit, and drops what it was given.
    """
    server = rest_catalog.properties["uri"]

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
            request = Request(server + self.path, body, dict(self.headers.items()), method=self.command)
            try:
                answer = urlopen(request)
            except HTTPError as error:
                answer = error
            with answer:
                content = answer.read()
                if self.path.startswith("/v1/config"):
                    config = json.loads(content)
                    config["endpoints"].remove(TRANSACTION)
                    content = json.dumps(config).encode()
                self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_HEAD = do_DELETE = forward  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = Thread(target=proxy.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{proxy.server_port}"
        proxy.shutdown()
        thread.join()


@pytest.mark.jar
def test_a_process_of_ours_and_duckdb_lose_nothing(
    rest_catalog: RestCatalog,
    one_table_at_a_time: str,
    rest_namespace: str,
    duckdb_iceberg: duckdb.DuckDBPyConnection,
    process: ProcessPoolExecutor,
) -> None:
    name = f"{rest_namespace}.t"
    table = two_files(rest_catalog, name)
    properties = {"uri": rest_catalog.properties["uri"]}
    other = process.submit(elsewhere, RestCatalog, properties, name, "merge")
    failed = 0
    with attached(duckdb_iceberg, one_table_at_a_time) as database:
        for number in range(ROUNDS):
            while True:
                try:
                    duckdb_iceberg.execute(f"DELETE FROM {database}.{name} WHERE id = {sharing(number, 0)}")
                    break
                except duckdb.Error as error:
                    if "Conflict_409" not in str(error):
                        raise
                    failed += 1
        conflicts = other.result()
        theirs = duckdb_iceberg.execute(f"SELECT id FROM {database}.{name} ORDER BY id").fetchall()
    print(f"{ROUNDS} rounds: {failed} conflicts of DuckDB's, {conflicts} of ours")
    assert whole(table) == list(range(2 * ROUNDS, N)) == [id for (id,) in theirs]
