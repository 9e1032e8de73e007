"""Where files of rows and tables may be: paths, URIs, object stores, standard output, folders of tables."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from tests.cli.tables import count, open_table
from tests.conftest import require_module

Run = Callable[..., Result]
Options = tuple[str, ...]


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
def test_rows_are_written_to_an_object_store_and_read_from_it(
    run: Run, catalog_options: Options, bucket: str, suffix: str
) -> None:
    place = f"{bucket}/{suffix}/rows.{suffix}"
    done = run("scan", "ns.t", "--row-filter", "id < 10", "--to", place, "--output", "json", *catalog_options)
    assert json.loads(done.stdout) == [{"table": "ns.t", "file": place, "rows": 10}]
    assert run("append", "ns.t", place, *catalog_options).exit_code == 0
    assert count(catalog_options) == 1010


def test_a_file_uri_is_the_local_file(run: Run, catalog_options: Options, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/out/rows.parquet"
    assert run("scan", "ns.t", "--to", place, *catalog_options).exit_code == 0
    assert pq.read_metadata(tmp_path / "out/rows.parquet").num_rows == 1000
    assert os.listdir(tmp_path / "out") == ["rows.parquet"]
    assert run("append", "ns.t", place, *catalog_options).exit_code == 0
    assert count(catalog_options) == 2000


def test_a_failed_scan_leaves_no_file_and_keeps_the_old_one(
    run: Run, catalog_options: Options, tmp_path: Path
) -> None:
    place = tmp_path / "rows.parquet"
    place.write_bytes(b"old")
    for path in Path(open_table(catalog_options).location().removeprefix("file://")).glob("data/*.parquet"):
        path.write_bytes(path.read_bytes()[:-9])
    assert run("scan", "ns.t", "--to", place, *catalog_options).exit_code == 1
    assert place.read_bytes() == b"old"
    assert not list(tmp_path.glob(".rows*"))


@pytest.mark.parametrize("option", ["--html", "--picture"])
def test_a_file_that_must_be_local_is_refused_elsewhere(
    run: Run, catalog_options: Options, option: str
) -> None:
    done = run("report", "ns.t", option, "s3://rows/x.html", *catalog_options)
    assert done.exit_code == 2
    assert "expected a path of this machine, found s3://rows/x.html" in done.stderr.replace("\n", "")


def test_all_rows_go_to_standard_output(run: Run, catalog_options: Options) -> None:
    lines = run("scan", "ns.t", "--to", "-", *catalog_options).stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == list(range(1000))
    text = run("scan", "ns.t", "--output", "csv", *catalog_options).stdout
    assert [row["id"] for row in csv.DictReader(io.StringIO(text))] == [str(i) for i in range(1000)]


def test_other_results_are_csv_too(run: Run, catalog_options: Options) -> None:
    text = run("delete", "ns.t", "--row-filter", "id < 3", "--output", "csv", *catalog_options).stdout
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["table"], row["rows_deleted"]) == ("ns.t", "3")
    text = run("scan", "ns.t", "--count", "--output", "csv", *catalog_options).stdout
    assert text == "table,rows\nns.t,997\n"


@pytest.mark.parametrize("text", ["[]", '[{"id": 1}, {"id": 2}]', '[\n {\n "id": 1\n },\n {"id": 2}]\n'])
def test_a_json_array_is_rows(run: Run, catalog_options: Options, tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    done = run("delete-keys", "ns.t", path, "--join-col", "id", *catalog_options)
    assert done.exit_code == 0, done.stderr
    assert count(catalog_options) == 1000 - len(json.loads(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"id": 1}, {"id": "x"}]', "row 2: column id: expected int64"),
        ('[{"id": 1}, 7]', "row 2: expected a JSON object, found int"),
        ('[{"id": 1}', "expected a JSON array of objects"),
        ('{"id": 1}\n[{"id": 2}]', "line 2: expected a JSON object, found list"),
    ],
)
def test_a_wrong_json_array_says_where(
    run: Run, catalog_options: Options, tmp_path: Path, text: str, expected: str
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    done = run("delete-keys", "ns.t", path, "--join-col", "id", *catalog_options)
    assert (done.exit_code, expected in done.stderr) == (1, True), done.stderr


def test_a_table_is_its_folder_or_its_metadata_file(
    run: Run, catalog_options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(catalog_options)
    folder = Path(table.location().removeprefix("file://"))
    monkeypatch.chdir(folder.parent)
    for place in (folder, folder.name, f"./{folder.name}", table.metadata_location):
        done = run("scan", place, "--count", "--output", "json")
        assert json.loads(done.stdout)[0]["rows"] == 1000, place
        assert "read only, as of" in done.stderr
    assert run("verify", folder.name).exit_code == 0
    refused = run("delete", folder.name, "--row-filter", "id = 1")
    assert refused.exit_code == 1
    assert "can be read only" in refused.stderr


def test_verify_has_levels(run: Run, catalog_options: Options) -> None:
    table = open_table(catalog_options)
    (data,) = Path(table.location().removeprefix("file://")).glob("data/*.parquet")
    assert "not checked" not in run("verify", "ns.t", "--level", "rows", *catalog_options).stdout
    data.unlink()
    done = run("verify", "ns.t", "--level", "metadata", *catalog_options)
    assert (done.exit_code, done.stdout) == (0, "ns.t: no errors found; not checked: data files, rows\n")
    for level in ([], ["--level", "files"], ["--level", "rows"]):
        assert run("verify", "ns.t", *level, *catalog_options).exit_code == 1
