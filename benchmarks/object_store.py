"""An S3 server (moto) in a process of its own, which delays each request and counts requests and bytes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["KEYS", "ObjectStore", "object_store"]

KEYS = {"access-key-id": "key", "secret-access-key": "secret", "region": "us-east-1"}
_CONTROL = "/__control"


@dataclass(frozen=True)
class ObjectStore:
    """The server.

    Attributes:
        port: on the loopback interface.
    """

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def delay(self, seconds: float) -> None:
        """Delays each further request."""
        self._control(f"delay/{seconds}")

    def taken(self) -> dict[str, float]:
        """The numbers of requests and of bytes of their answers since the last call."""
        found: dict[str, float] = self._control("taken")
        return found

    def _control(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self.endpoint}{_CONTROL}/{what}") as answer:
            return json.loads(answer.read())


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Starts the server, which has the bucket ``lake``."""
    import pyarrow.fs

    command = [sys.executable, "-m", "benchmarks.object_store"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            store = ObjectStore(int(server.stdout.readline()))
            pyarrow.fs.S3FileSystem(
                access_key=KEYS["access-key-id"],
                secret_key=KEYS["secret-access-key"],
                endpoint_override=store.endpoint,
                allow_bucket_creation=True,
            ).create_dir("lake")
            yield store
        finally:
            server.kill()


def main() -> None:
    """Serves until the process is ended; prints the port."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open, as those of a store

        def log(self, *_: object) -> None: ...

    application = DomainDispatcherApplication(create_backend_app)
    lengths: list[int] = []
    seconds = 0.0

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        nonlocal seconds
        path: str = environ["PATH_INFO"]
        if path.startswith(_CONTROL):
            found = {"requests": len(lengths), "bytes": sum(lengths)}
            if "/delay/" in path:
                seconds = float(path.rpartition("/")[2])
            lengths.clear()
            body = json.dumps(found).encode()
            start_response("200 OK", [("Content-Length", str(len(body)))])
            return [body]

        def started(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            named = {name.lower(): value for name, value in headers}
            lengths.append(0 if environ["REQUEST_METHOD"] == "HEAD" else int(named.get("content-length", 0)))
            return start_response(status, headers, *rest)

        time.sleep(seconds)
        return application(environ, started)

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=Quiet)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
