"""An S3 server (moto) in a process of its own, which delays each request and counts requests and bytes.

moto copies a whole object for each range of it that is requested, which takes 60 ms for 37 MB. So objects are kept as
moto answered them once, and ranges are sent from there.
"""

from __future__ import annotations

import json
import math
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

    def delay(self, seconds: float, bytes_per_second: float = math.inf) -> None:
        """Delays each further request, and sends no more bytes a second on each connection."""
        self._control(f"delay/{seconds}/{bytes_per_second}")

    def taken(self) -> dict[str, float]:
        """What was requested since the last call.

        Returns:
            ``requests`` and ``bytes``: the numbers of requests and of bytes of their answers; ``in_turn``: the number
            of requests of which each began after the one before had ended, at most.
        """
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
        disable_nagle_algorithm = True  # the bytes would wait for the receipt of the headers

        def log(self, *_: object) -> None: ...

    application = DomainDispatcherApplication(create_backend_app)
    # of each request its end, its start, and the bytes of its answer
    done: list[tuple[float, float, int]] = []
    objects: dict[str, tuple[dict[str, str], bytes]] = {}  # headers and bytes by path
    seconds, rate = 0.0, math.inf

    def control(what: str) -> dict[str, float]:
        nonlocal seconds, rate
        if what.startswith("delay/"):
            seconds, rate = map(float, what.split("/")[1:])
        last = in_turn = 0.0
        for end, start, _ in sorted(done):
            if start >= last:
                last, in_turn = end, in_turn + 1
        found = {"requests": len(done), "bytes": sum(n for *_, n in done), "in_turn": in_turn}
        done.clear()
        return found

    def part_of(requested: str, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        path = environ["PATH_INFO"]
        if path not in objects:
            answered: list[Any] = []
            parts = [*application(environ, lambda *given: answered.extend(given))]
            status, headers, *_ = answered
            if not status.startswith("200"):
                start_response(status, headers)
                return parts
            objects[path] = dict(headers), b"".join(parts)
        headers, whole = objects[path]
        first, last = requested.removeprefix("bytes=").split("-")
        at = int(first) if first else max(len(whole) - int(last), 0)
        data = whole[at : int(last) + 1 if first and last else None]
        length = {name: str(len(data)) for name in headers if name.lower() == "content-length"}
        described = {"Content-Range": f"bytes {at}-{at + len(data) - 1}/{len(whole)}"}
        start_response("206 Partial Content", [*(headers | length | described).items()])
        return [data]

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        path: str = environ["PATH_INFO"]
        if path.startswith(_CONTROL):
            body = json.dumps(control(path.removeprefix(f"{_CONTROL}/"))).encode()
            start_response("200 OK", [("Content-Length", str(len(body)))])
            return [body]
        start = time.perf_counter()
        time.sleep(seconds)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            objects.clear()
        if environ["REQUEST_METHOD"] == "GET" and (requested := environ.pop("HTTP_RANGE", "")):
            parts = part_of(requested, environ, start_response)
        else:
            parts = [*application(environ, start_response)]
        n_bytes = sum(map(len, parts))
        time.sleep(n_bytes / rate)
        done.append((time.perf_counter(), start, n_bytes))
        return parts

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=Quiet)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
