"""The commands that maintain tables, from the shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from puffin_fast import iceberg
from tests.cli.conftest import Shell
from tests.conftest import require_module
from tests.kit.rows import by_pyiceberg
from tests.kit.tables import folder_of


@pytest.fixture
def many(shell: Shell) -> Shell:
    """The table with two data files, a small vector each, in two Puffin files."""
    table = shell.table
    iceberg.append(table, iceberg.scan(table).to_arrow())
    for task in iceberg.plan_files(table).tasks:
        iceberg.delete_positions(table, {task.data.file_path: [7]})
    return shell


def test_compact_dry_run_then_compact(many: Shell) -> None:
    before = many.table.metadata_location
    paths = [task.data.file_path for task in iceberg.plan_files(many.table).tasks]
    for some, n_removed in (([], 2), (paths[:1], 0), (paths, 2)):
        options = [word for path in some for word in ("--file-path", path)]
        planned = many.ask("compact", "ns.t", "--dry-run", *options)
        assert (planned["puffin_files_removed"], planned["commit"]["id"], planned["dry_run"]) == (
            n_removed,
            None,
            True,
        )
    assert many.table.metadata_location == before
    done = many.ask("compact", "ns.t")
    assert (done["puffin_files_written"], many.count()) == (1, 1998)
    assert done["commit"]["id"] == many.table.metadata.current_snapshot_id


COMMANDS = [
    "report", "verify", "convert", "compact", "rewrite", "repair", "orphan-files", "expire-snapshots",
    "remove-orphan-files", "maintain", "rewrite-manifests",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_prints_a_table_and_json_or_one_line(many: Shell, command: str) -> None:
    assert many.says(command, "ns.t")
    many.ask(command, "ns.t")
    assert "ns.other" in many.refused(command, "ns.other")


def test_report_names_what_to_do_and_draws(many: Shell, tmp_path: Path) -> None:
    require_module("matplotlib", "pip install 'puffin-fast[plot]'")
    picture, page = tmp_path / "p.svg", tmp_path / "p.html"
    answer = many.ask("report", "ns.t", "--picture", picture, "--html", page)
    assert answer["advice"] == ["compact: 2 vectors in 2 small Puffin files"]
    assert (len(answer["files"]), [row["data_files"] for row in answer["partitions"]]) == (2, [2])
    assert answer["snapshots"][-1]["operation"] in ("delete", "overwrite")
    assert picture.stat().st_size > 0
    assert "ns.t" in page.read_text()


def test_data_files_are_rewritten(many: Shell) -> None:
    before = by_pyiceberg(many.table)
    rewrite = ("rewrite", "ns.t", "--min-deleted", "0")
    assert many.ask(*rewrite, "--sort-by", "id desc", "--dry-run")["data_files"] == 2
    assert "no column nope" in many.refused("rewrite", "ns.t", "--sort-by", "nope")
    dry = many.ask(*rewrite, "--dry-run")
    assert (dry["commit"]["id"], dry["data_files"]) == (None, 2)
    for command in (rewrite, ("rewrite-manifests", "ns.t")):
        assert "dry run: nothing was written" in many.says(*command, "--dry-run")
    done = many.ask(*rewrite, "--job-id", "j")
    assert (done["data_files"], done["rows"]) == (2, len(before))
    assert by_pyiceberg(many.table) == before
    assert "has this job id" in many.says("rewrite", "ns.t", "--job-id", "j")
    assert "nothing to do" in many.says("rewrite", "ns.t", "--row-filter", "id < 0")


def test_verify_of_a_damaged_table_fails_and_names_the_file(many: Shell) -> None:
    path = folder_of(iceberg.deletes(many.table)["path"][0].as_py())
    path.unlink()
    (finding,) = many.failing("verify", "ns.t")
    assert (finding["kind"], path.name in finding["path"]) == ("missing", True)
    assert path.name in many.failing("repair", "ns.t")["not_rewritten"][0]


def test_convert_does_one_kind_or_both(many: Shell) -> None:
    both = many.ask("convert", "ns.t")
    assert [row["job"] for row in both] == ["convert position deletes", "convert equality deletes"]
    assert many.one("convert", "ns.t", "--only", "equality", "--dry-run")["dry_run"]


def test_snapshots_expire_and_orphan_files_go(many: Shell) -> None:
    at_once = ("--older-than", "0")
    dry = many.ask("expire-snapshots", "ns.t", "--dry-run", *at_once)
    assert len(many.table.metadata.snapshots) == len(dry["snapshot_ids"]) + 1
    assert "manifest lists" in many.says("expire-snapshots", "ns.t", *at_once)
    assert len(many.table.metadata.snapshots) == 1
    assert "nothing to do" in many.says("expire-snapshots", "ns.t", *at_once)
    orphan = folder_of(many.table) / "data" / "left.parquet"
    orphan.write_bytes(b"12345")
    assert many.ask("orphan-files", "ns.t") == []  # it is not old
    assert many.one("orphan-files", "ns.t", *at_once)["path"].endswith("left.parquet")
    assert "1 file (5 bytes) to remove" in many.says("remove-orphan-files", "ns.t", *at_once)
    assert orphan.exists()
    assert "1 file (5 bytes) removed" in many.says("remove-orphan-files", "ns.t", "--no-dry-run", *at_once)
    assert not orphan.exists()
    assert many.ask("verify", "ns.t") == []


def test_a_policy_chooses_the_steps(many: Shell, tmp_path: Path) -> None:
    policy = tmp_path / "nightly.toml"
    policy.write_text('steps = ["compact", "expire"]\nexpire_older_than = 0\n')
    assert "bytes would be freed" in many.says("maintain", "ns.t", "--policy", policy, "--dry-run")
    done = many.ask("maintain", "ns.t", "--policy", policy)
    assert (done["vectors"]["puffin_files_written"], done["data_files"]) == (1, None)
    assert len(many.table.metadata.snapshots) == 1
    policy.write_text("steps = compact")
    assert "expected TOML" in many.refused("maintain", "ns.t", "--policy", policy)
