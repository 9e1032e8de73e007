"""An object store (S3 by moto) whose requests are counted and may fail, and Iceberg's tables on it."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.conftest import require_module

KEYS = {"access-key-id": "key", "secret-access-key": "secret", "region": "us-east-1"}


ARROW, FSSPEC = "pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO"


LATE_S = 1.0
"""Seconds after which a server with the fault ``"late"`` writes an object."""


REFUSALS = {
    "400": "ExpiredToken",
    "403": "AccessDenied",
    "404": "NoSuchBucket",
    "409": "ConditionalRequestConflict",
    "501": "NotImplemented",
}


class Request(NamedTuple):
    """A request of a client; `start` and `stop` are the byte range of the object that was sent."""

    method: str
    path: str
    start: int
    stop: int


class Store(NamedTuple):
    """An S3 server.

    Attributes:
        endpoint: its address.
        requests: those that it received, in order.
        denied: the methods that it denies.
        faults: what happens to the next requests that PUT an object whose path ends so. ``"lost"``: it is done without
            an answer. ``"late"``: the connection ends, and it is done `LATE_S` seconds later. A number: it is refused
            with that status.
    """

    endpoint: str
    requests: list[Request]
    denied: set[str]
    faults: dict[str, list[str]]

    def reads(self, location: str) -> list[tuple[int, int]]:
        """The ranges of one object that were read."""
        path = "/" + location.removeprefix("s3://")
        return [(r.start, r.stop) for r in self.requests if (r.method, r.path) == ("GET", path)]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """An S3 server on loopback with the bucket ``lake``."""
    require_module("moto")
    require_module("flask")
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_: object) -> None: ...

    application = DomainDispatcherApplication(create_backend_app)
    requests, denied, faults = list[Request](), set[str](), dict[str, list[str]]()

    def counted(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        def started(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            named = {name.lower(): value for name, value in headers}
            length, start = int(named.get("content-length", 0)), 0
            if "content-range" in named:  # bytes 0-9/100
                start = int(named["content-range"].split()[1].partition("-")[0])
            found = Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], start, start + length)
            requests.append(found)
            return start_response(status, headers, *rest)

        if environ["REQUEST_METHOD"] in denied:
            start_response("403 Forbidden", [("Content-Type", "application/xml"), ("Connection", "close")])
            return [b"<Error><Code>AccessDenied</Code><Message>read only</Message></Error>"]
        if environ["REQUEST_METHOD"] == "PUT":
            ends = [end for end, left in faults.items() if left and environ["PATH_INFO"].endswith(end)]
            if ends:
                fault = faults[ends[0]].pop(0)
                body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
                environ["wsgi.input"] = io.BytesIO(body)
                if fault.isdecimal():
                    start_response(
                        f"{fault} Refused", [("Content-Type", "application/xml"), ("Connection", "close")]
                    )
                    return [f"<Error><Code>{REFUSALS[fault]}</Code><Message>no</Message></Error>".encode()]
                if fault == "late":
                    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                    time.sleep(LATE_S)
                list(application(environ, started))
                if fault == "lost":
                    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                raise ConnectionError
        return application(environ, started)

    server = make_server("127.0.0.1", 0, counted, threaded=True, request_handler=Quiet)
    thread = Thread(target=server.serve_forever)
    thread.start()
    made = Store(f"http://127.0.0.1:{server.server_port}", requests, denied, faults)
    pa.fs.S3FileSystem(
        access_key="key", secret_key="secret", endpoint_override=made.endpoint, allow_bucket_creation=True
    ).create_dir("lake")
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=[ARROW, FSSPEC], ids=["pyarrow", "fsspec"])
def catalog(request: pytest.FixtureRequest, store: Store, tmp_path: Path) -> Iterator[SqlCatalog]:
    """A catalog whose warehouse is a folder of the bucket."""
    properties = {f"s3.{name}": value for name, value in KEYS.items()} | {"s3.endpoint": store.endpoint}
    made = SqlCatalog(
        "s3",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=f"s3://lake/{tmp_path.name}",
        **properties,
        **{"py-io-impl": request.param},
    )
    made.create_namespace("n")
    yield made
    made.engine.dispose()
