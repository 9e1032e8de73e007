"""An HTTP proxy in front of a REST catalog that leaves out snapshots, or refuses commits that it has passed on."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyiceberg.catalog.rest import RestCatalog


class Proxy(ThreadingHTTPServer):
    """Passes requests on, and changes the answers.

    Attributes:
        refs_only: answers have the snapshots of branches and tags only.
        names_file: answers name the metadata file.
        before: functions, each called once before a commit is passed on.
        refused: functions, each called once after a commit was passed on, whose answer is then 409.
    """

    daemon_threads = True
    refs_only = True
    names_file = True
    before: list[Callable[[], object]]
    refused: list[Callable[[], object]]

    def __init__(self, uri: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.uri, self.before, self.refused = uri, [], []

    def catalog(self) -> RestCatalog:
        """PyIceberg's client of the catalog behind the proxy."""
        return RestCatalog("proxy", uri=f"http://127.0.0.1:{self.server_port}")

    def changed(self, answer: dict[str, Any]) -> dict[str, Any]:
        """An answer with table metadata as the proxy gives it."""
        metadata = answer["metadata"]
        if self.refs_only:
            heads = {reference["snapshot-id"] for reference in metadata.get("refs", {}).values()}
            for key in ("snapshots", "snapshot-log", "statistics", "partition-statistics"):
                metadata[key] = [item for item in metadata.get(key) or () if item["snapshot-id"] in heads]
        if not self.names_file:
            answer["metadata-location"] = None
        return answer


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.server.uri + self.path, body, headers, method=self.command)
        is_commit = self.command == "POST" and "/tables/" in self.path
        if is_commit and self.server.before:
            self.server.before.pop(0)()
        try:
            with urllib.request.urlopen(request) as response:
                status, data = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, data = error.code, error.read()
        if status == 200 and is_commit and self.server.refused:
            self.server.refused.pop(0)()
            status = 409
            data = json.dumps(
                {"error": {"message": "refused", "type": "CommitFailedException", "code": 409}}
            ).encode()
        answer = json.loads(data) if data else None
        if status == 200 and isinstance(answer, dict) and "metadata" in answer:
            data = json.dumps(self.server.changed(answer)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = _pass_on  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def proxy(uri: str) -> Iterator[Proxy]:
    """A proxy in front of a catalog, until the block ends."""
    with Proxy(uri) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
