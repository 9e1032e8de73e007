"""The commands that maintain tables, from the shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from tests.conftest import require_module

Run = Callable[..., Result]
Options = tuple[str, ...]


def open_table(options: Options) -> Table:
    return load_catalog("c", uri=options[3], warehouse=options[5]).load_table("ns.t")


def said(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.fixture
def many(run: Run, catalog_options: Options) -> Options:
    """The table with two data files, a small vector each, in two Puffin files."""
    table = open_table(catalog_options)
    iceberg.append(table, iceberg.scan(table).to_arrow())
    data_files = [task.data.file_path for task in iceberg.plan_files(table).tasks]
    for path in data_files:
        iceberg.delete_positions(table, pa.table({"file_path": [path], "pos": [7]}))
    return catalog_options


def test_compact_dry_run_then_compact(run: Run, many: Options) -> None:
    before = open_table(many).metadata_location
    planned = said(run("compact", "ns.t", "--dry-run", "--output", "json", *many))
    assert (planned["puffin_files_removed"], planned["snapshot_id"], planned["dry_run"]) == (2, None, True)
    paths = [task.data.file_path for task in iceberg.plan_files(open_table(many)).tasks]
    for some, n_removed in ((paths[:1], 0), (paths, 2)):
        options = [word for path in some for word in ("--file-path", path)]
        some_planned = said(run("compact", "ns.t", "--dry-run", "--output", "json", *options, *many))
        assert some_planned["puffin_files_removed"] == n_removed
    assert open_table(many).metadata_location == before
    done = said(run("compact", "ns.t", "--output", "json", *many))
    assert done["puffin_files_written"] == 1
    assert done["snapshot_id"] == open_table(many).metadata.current_snapshot_id
    assert open_table(many).scan().to_arrow().num_rows == 1998


COMMANDS = [
    "report", "verify", "convert", "compact", "rewrite", "repair", "orphan-files", "expire-snapshots",
    "remove-orphan-files", "maintain", "rewrite-manifests",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_prints_a_table_and_json(run: Run, many: Options, command: str) -> None:
    text = run(command, "ns.t", *many)
    assert text.exit_code == 0, text.output
    assert text.stdout
    said(run(command, "ns.t", "--output", "json", *many))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_that_is_not_there_is_one_line(run: Run, catalog_options: Options, command: str) -> None:
    result = run(command, "ns.other", *catalog_options)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "ns.other" in result.stderr


def test_report_names_what_to_do_and_draws(run: Run, many: Options, tmp_path: Path) -> None:
    require_module("matplotlib", "pip install 'puffin-fast[plot]'")
    picture, page = tmp_path / "p.svg", tmp_path / "p.html"
    answer = said(run("report", "ns.t", "--picture", picture, "--html", page, "--output", "json", *many))
    assert answer["advice"] == ["compact: 2 vectors in 2 small Puffin files"]
    assert len(answer["files"]) == 2
    assert [row["data_files"] for row in answer["partitions"]] == [2]
    assert answer["snapshots"][-1]["operation"] in ("delete", "overwrite")
    assert picture.stat().st_size > 0
    assert "ns.t" in page.read_text()


def test_data_files_are_rewritten(run: Run, many: Options) -> None:
    before = open_table(many).scan().to_arrow().sort_by("id")
    options = ("--min-deleted", "0", "--output", "json", *many)
    assert said(run("rewrite", "ns.t", "--sort-by", "id desc", "--dry-run", *options))["data_files"] == 2
    assert "no column nope" in run("rewrite", "ns.t", "--sort-by", "nope", *many).output
    dry = said(run("rewrite", "ns.t", "--dry-run", *options))
    assert (dry["snapshot_id"], dry["data_files"]) == (None, 2)
    for command in (("rewrite", "ns.t", "--min-deleted", "0"), ("rewrite-manifests", "ns.t")):
        assert "dry run: nothing was written" in run(*command, "--dry-run", *many).output, command
    done = said(run("rewrite", "ns.t", "--job-id", "j", *options))
    assert (done["data_files"], done["rows"]) == (2, before.num_rows)
    assert open_table(many).scan().to_arrow().sort_by("id").equals(before)
    assert "has this job id" in run("rewrite", "ns.t", "--job-id", "j", *many).output
    assert "nothing to do" in run("rewrite", "ns.t", "--row-filter", "id < 0", *many).output


def test_verify_of_a_damaged_table_fails_and_names_the_file(run: Run, many: Options) -> None:
    path = Path(iceberg.deletes(open_table(many))["path"][0].as_py().removeprefix("file://"))
    path.unlink()
    result = run("verify", "ns.t", "--output", "json", *many)
    assert result.exit_code == 1
    (finding,) = json.loads(result.output)
    assert finding["kind"] == "missing"
    assert path.name in finding["path"]
    repaired = run("repair", "ns.t", "--output", "json", *many)
    assert repaired.exit_code == 1
    assert path.name in json.loads(repaired.output)["not_rewritten"][0]


def test_convert_does_one_kind_or_both(run: Run, many: Options) -> None:
    both = said(run("convert", "ns.t", "--output", "json", *many))
    assert [row["job"] for row in both] == ["convert position deletes", "convert equality deletes"]
    (one,) = said(run("convert", "ns.t", "--only", "equality", "--dry-run", "--output", "json", *many))
    assert one["dry_run"]


def test_unneeded_files_are_listed_once_they_are_old(run: Run, many: Options) -> None:
    table = open_table(many)
    orphan = Path(table.location().removeprefix("file://"), "data", "orphan.puffin")
    orphan.write_bytes(b"1234")
    assert said(run("orphan-files", "ns.t", "--output", "json", *many)) == []
    (row,) = said(run("orphan-files", "ns.t", "--older-than", "0", "--output", "json", *many))
    assert row["path"].endswith("orphan.puffin")
    assert orphan.exists()


def test_snapshots_expire_and_orphan_files_go(run: Run, many: Options) -> None:
    at_once = ("--older-than", "0", *many)
    dry = said(run("expire-snapshots", "ns.t", "--dry-run", "--output", "json", *at_once))
    assert len(open_table(many).metadata.snapshots) == len(dry["snapshot_ids"]) + 1
    assert "manifest lists" in run("expire-snapshots", "ns.t", *at_once).output
    assert len(open_table(many).metadata.snapshots) == 1
    assert "nothing to do" in run("expire-snapshots", "ns.t", *at_once).output
    orphan = Path(open_table(many).location().removeprefix("file://")) / "data" / "left.parquet"
    orphan.write_bytes(b"12345")
    assert "1 file (5 bytes) to remove" in run("remove-orphan-files", "ns.t", *at_once).output
    assert orphan.exists()
    assert "1 file (5 bytes) removed" in run("remove-orphan-files", "ns.t", "--no-dry-run", *at_once).output
    assert not orphan.exists()
    assert said(run("verify", "ns.t", "--output", "json", *many)) == []


def test_a_policy_chooses_the_steps(run: Run, many: Options, tmp_path: Path) -> None:
    policy = tmp_path / "nightly.toml"
    policy.write_text('steps = ["compact", "expire"]\nexpire_older_than = 0\n')
    dry = run("maintain", "ns.t", "--policy", str(policy), "--dry-run", *many).output
    assert "bytes would be freed" in dry
    done = said(run("maintain", "ns.t", "--policy", str(policy), "--output", "json", *many))
    assert done["vectors"]["puffin_files_written"] == 1
    assert done["data_files"] is None
    assert len(open_table(many).metadata.snapshots) == 1
    policy.write_text("steps = compact")
    wrong = run("maintain", "ns.t", "--policy", str(policy), *many)
    assert wrong.exit_code == 1
    assert "expected TOML" in wrong.stderr
