"""The pages about configuration, catalogs and errors say what the code does."""

from __future__ import annotations

import base64
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import puffin_fast as pf
from puffin_fast import delta, iceberg, spark
from puffin_fast._io.sink import put_if_absent
from tests.architecture import formats
from tests.architecture.pages import ROOT, run_blocks
from tests.conftest import require_module

DOCS = ROOT / "docs"
PACKAGE = "\n".join(
    path.read_text()
    for pattern in ("*.py", "*.pyx", "*.h")
    for path in sorted((ROOT / "puffin_fast").rglob(pattern))
)
JOINED = re.sub(r'"\s*\n\s*f?"', "", PACKAGE)
"""The sources, with the parts of texts that are written on several lines joined."""

CONFIGURATION = (DOCS / "configuration.md").read_text()
OF_PYICEBERG = {"Cannot write manifest for table version: 3", "Writing V3 is not yet supported"}
"""Texts of PyIceberg's errors, which test_pyiceberg_says_so raises."""


def test_all_environment_variables_and_properties_are_listed() -> None:
    variables = set(re.findall(r"\bPUFFIN_FAST_[A-Z]+\b", PACKAGE)) - {"PUFFIN_FAST_COMPLETE"}
    assert set(re.findall(r"`(PUFFIN_FAST_[A-Z]+)", CONFIGURATION)) == variables
    properties = set(re.findall(r'"(puffin-fast\.[a-z.-]+[a-z])"', PACKAGE))
    assert set(re.findall(r"`(puffin-fast\.[a-z.-]+)`", CONFIGURATION)) == properties


def test_the_page_of_properties_lists_those_that_the_code_reads() -> None:
    named = set(re.findall(r'"((?:write|commit|history|gc|schema)\.[a-z][a-z.-]+[a-z])"', PACKAGE))
    page = (DOCS / "properties.md").read_text()
    assert {name for name in named if name not in page} == set()


def errors() -> list[str]:
    return re.findall(r"^### `([^`]+)`$", (DOCS / "troubleshooting.md").read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("text", errors())
def test_an_error_of_troubleshooting_is_one_of_the_code(text: str) -> None:
    if text in OF_PYICEBERG:
        return
    parts = [part.strip() for part in text.split("…") if part.strip(" ,")]
    gaps = r"\{(?:[^{}]|\{[^{}]*\})*\}"
    assert re.search(rf"(?:{gaps}|.){{0,160}}?".join(map(re.escape, parts)), JOINED), text


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A fake of S3 and Glue, which the environment names."""
    require_module("moto")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="lake")
    yield address
    server.stop()


WARNINGS = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@WARNINGS
def test_catalogs_of_aws_take_deletes(aws: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        run_blocks(
            DOCS / "catalogs.md",
            {"http://localhost:9000": aws, "type=": f'**{{"s3.endpoint": "{aws}"}}, type='},
            {"s3"},
        )


@WARNINGS
def test_delta_tables_on_s3(aws: str) -> None:
    run_blocks(DOCS / "delta.md", {"http://localhost:9000": aws}, {"s3"})


@WARNINGS
def test_delta_tables_on_google_cloud_storage() -> None:
    """In a process of its own: gcsfs chooses its client when it is imported."""
    require_module("gcp_storage_emulator")
    program = """
import os
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="lake")
server.start()
host, port = server._api._httpd.server_address
os.environ |= {"STORAGE_EMULATOR_HOST": f"http://{host}:{port}", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
from tests.architecture.test_pages import DOCS, run_blocks
replaced = {'"google_service_account": "service_account.json"': '"google_skip_signature": "true"'}
run_blocks(DOCS / "delta.md", replaced, {"gs"})
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]


@WARNINGS
def test_delta_tables_on_azure(tmp_path: Path) -> None:
    azurite = shutil.which("azurite-blob") or pytest.skip("azurite is missing: npm install -g azurite")
    import adlfs

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}/name"
    key = base64.b64encode(bytes(64)).decode()
    command = [azurite, "--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
    server = subprocess.Popen(
        [*command, "--blobPort", str(port)],
        cwd=tmp_path,
        env=os.environ | {"AZURITE_ACCOUNTS": f"name:{key}"},
    )
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        connection = f"AccountName=name;AccountKey={key};BlobEndpoint={endpoint}"
        store = adlfs.AzureBlobFileSystem(connection_string=connection)
        store.mkdir("lake")
        written = [put_if_absent("az://lake/once", bytes([at]), filesystem=store) for at in range(3)]
        assert (written, store.cat_file("lake/once")) == ([True, False, False], b"\0")
        name = '"azure_storage_account_key": "key"'
        other = name.replace('"key"', f'"{key}", "azure_endpoint": "{endpoint}"')
        run_blocks(DOCS / "delta.md", {name: other}, {"az"})
    finally:
        server.terminate()
        server.wait()


def test_the_reference_has_every_public_function_and_class() -> None:
    pages = "\n".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    named = re.findall(r"^::: pf\.([\w.]+)", pages, flags=re.MULTILINE)
    assert len(named) == len(set(named))
    both = {name for name in named if "." not in name}  # the functions and results of all formats
    assert both == _of_all(iceberg) | {"Table", "create_table", "open_table"}
    for prefix, module in (("iceberg", iceberg), ("delta", delta), ("spark", spark)):
        public = {name for name in module.__all__ if callable(getattr(module, name))}
        if module is not spark:
            public -= _of_all(module)
        found = {name.partition(".")[2] for name in named if name.startswith(f"{prefix}.")}
        assert found == public - {"to_delta"}


def test_the_table_of_functions_and_formats_is_that_of_the_handles() -> None:
    assert formats.page() == formats.PAGE.read_text(), "python -m tests.architecture.formats writes it again"


def _of_all(module: Any) -> set[str]:
    """The names of a format's module that are those of `pf`."""
    return {name for name in {*module.__all__} & {*pf.__all__} if getattr(module, name) is getattr(pf, name)}
