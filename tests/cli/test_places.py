"""Where files of rows and tables may be: paths, URIs, object stores, standard output, folders of tables."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Shell
from tests.conftest import require_module
from tests.kit.cases import each
from tests.kit.tables import folder_of


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket on a local server of S3, which the environment describes."""
    require_module("moto")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="rows")
        yield "s3://rows/out"
        server.stop()


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "json"])
def test_rows_are_written_to_an_object_store_and_read_from_it(shell: Shell, bucket: str, suffix: str) -> None:
    place = f"{bucket}/{suffix}/rows.{suffix}"
    done = shell.one("scan", "ns.t", "--row-filter", "id < 10", "--to", place)
    assert done == {"table": "ns.t", "file": place, "rows": 10}
    shell.says("append", "ns.t", place)
    assert shell.count() == 1010


def test_a_file_uri_is_the_local_file(shell: Shell, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/out/rows.parquet"
    shell.says("scan", "ns.t", "--to", place)
    assert pq.read_metadata(tmp_path / "out/rows.parquet").num_rows == 1000
    assert os.listdir(tmp_path / "out") == ["rows.parquet"]
    shell.says("append", "ns.t", place)
    assert shell.count() == 2000


def test_a_failed_scan_leaves_no_file_and_keeps_the_old_one(shell: Shell, tmp_path: Path) -> None:
    place = tmp_path / "rows.parquet"
    place.write_bytes(b"old")
    for path in folder_of(shell.table).glob("data/*.parquet"):
        path.write_bytes(path.read_bytes()[:-9])
    shell.refused("scan", "ns.t", "--to", place)
    assert place.read_bytes() == b"old"
    assert not list(tmp_path.glob(".rows*"))


@pytest.mark.parametrize("option", ["--html", "--picture"])
def test_a_file_that_must_be_local_is_refused_elsewhere(shell: Shell, option: str) -> None:
    said = shell.refused("report", "ns.t", option, "s3://rows/x.html", code=2)
    assert "expected a path of this machine, found s3://rows/x.html" in said.replace("\n", "")


def test_all_rows_go_to_standard_output(shell: Shell) -> None:
    lines = shell.says("scan", "ns.t", "--to", "-").splitlines()
    assert [json.loads(line)["id"] for line in lines] == list(range(1000))
    text = shell.says("scan", "ns.t", "--output", "csv")
    assert [row["id"] for row in csv.DictReader(io.StringIO(text))] == [str(i) for i in range(1000)]


def test_other_results_are_csv_too(shell: Shell) -> None:
    text = shell.says("delete", "ns.t", "--row-filter", "id < 3", "--output", "csv")
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["table"], row["rows_deleted"]) == ("ns.t", "3")
    assert shell.says("scan", "ns.t", "--count", "--output", "csv") == "table,rows\nns.t,997\n"


@pytest.mark.parametrize("text", ["[]", '[{"id": 1}, {"id": 2}]', '[\n {\n "id": 1\n },\n {"id": 2}]\n'])
def test_a_json_array_is_rows(shell: Shell, tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    shell.says("delete-keys", "ns.t", tmp_path / "keys.json", "--join-col", "id")
    assert shell.count() == 1000 - len(json.loads(text))


@each(
    "text, expected",
    [
        ('[{"id": 1}, {"id": "x"}]', "row 2: column id: expected int64"),
        ('[{"id": 1}, 7]', "row 2: expected a JSON object, found a number"),
        ('[{"id": 1}', "expected a JSON array of objects"),
        ('{"id": 1}\n[{"id": 2}]', "line 2: expected a JSON object, found an array"),
    ],
)
def test_a_wrong_json_array_says_where(shell: Shell, tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    assert expected in shell.refused("delete-keys", "ns.t", tmp_path / "keys.json", "--join-col", "id")


def test_a_table_is_its_folder_or_its_metadata_file(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, plain = folder_of(shell.table), Shell()
    monkeypatch.chdir(folder.parent)
    for place in (folder, folder.name, f"./{folder.name}", shell.table.metadata_location):
        done = plain.run("scan", place, "--count", "--output", "json")
        assert json.loads(done.stdout)[0]["rows"] == 1000, place
        assert "read only, as of" in done.stderr
    plain.says("verify", folder.name)
    assert "can be read only" in plain.refused("delete", folder.name, "--row-filter", "id = 1")


def test_verify_has_levels(shell: Shell) -> None:
    (data,) = folder_of(shell.table).glob("data/*.parquet")
    assert "not checked" not in shell.says("verify", "ns.t", "--level", "rows")
    data.unlink()
    said = shell.says("verify", "ns.t", "--level", "metadata")
    assert said == "ns.t: no errors found; not checked: data files, rows\n"
    for level in ([], ["--level", "files"], ["--level", "rows"]):
        assert shell.failing("verify", "ns.t", *level)
