"""The command ``delete``: its effect on a table, and its errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.cli.conftest import Shell
from tests.kit.cases import each


@pytest.mark.parametrize("row_filter", ["id < 5", "nobody < 5"])
def test_the_catalog_is_closed_when_a_command_ends_or_fails(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, row_filter: str
) -> None:
    close, closed = SqlCatalog.close, list[SqlCatalog]()

    def closing(catalog: SqlCatalog) -> None:
        closed.append(catalog)
        close(catalog)

    monkeypatch.setattr(SqlCatalog, "close", closing)
    shell.run("delete", "ns.t", "--row-filter", row_filter)
    assert len(closed) == 1


def test_delete_says_how_many_rows_it_deletes_or_would_delete(shell: Shell) -> None:
    before = shell.table.metadata_location
    for row_filter, n_rows, *dry_run in (("word = 'w1'", 143, "--dry-run"), ("id < 0", 0)):
        arguments = ("delete", "ns.t", "--row-filter", row_filter, *dry_run)
        assert shell.one(*arguments)["rows_deleted"] == n_rows
        assert shell.table.metadata_location == before
    done = shell.one("delete", "ns.t", "--row-filter", "id >= 10 and id < 30")
    assert done["rows_deleted"] == 20
    assert done["commit"]["id"] == shell.table.metadata.current_snapshot_id
    assert Shell().run(*shell.options, "delete", "ns.t", "--row-filter", "id = 1").exit_code == 0
    assert shell.count() == 979


@each(
    "arguments, named",
    [
        (("ns.t", "--row-filter", "nothing = 1"), "nothing"),
        (("ns.t", "--row-filter", "id ="), "id ="),
        (("ns.t", "--row-filter", "id = 1", "--branch", "twig"), "twig"),
        (("ns.other", "--row-filter", "id = 1"), "ns.other"),
        (("other.t", "--row-filter", "id = 1"), "other.t"),
    ],
)
def test_errors_are_one_line_that_names_the_cause(
    shell: Shell, arguments: tuple[str, ...], named: str
) -> None:
    assert named in shell.refused("delete", *arguments)


def test_wrong_usage_is_refused(shell: Shell) -> None:
    assert "nonsense" in Shell().refused("delete", "ns.t", "--row-filter", "id = 1", "--uri", "nonsense://x")
    assert "--row-filter" in shell.refused("delete", "ns.t", code=2)


@pytest.mark.spark
def test_a_filter_means_the_same_through_spark(shell: Shell, spark: object) -> None:
    """Spark's SQL would read "id" as text."""
    text = """"id" >= 10 and not (word like 'w_' and id > 29.5) or id > 1e30"""
    arguments = ("delete", "ns.t", "--row-filter", text)
    planned, done = shell.one(*arguments, "--dry-run"), shell.one(*arguments, "--spark")
    assert (planned["rows_deleted"], done["rows_deleted"], shell.count()) == (20, 20, 980)


def test_the_installed_command_has_no_traceback(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("puffin-fast")), "inspect", str(tmp_path / "x.puffin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("puffin-fast: error: ")
    assert "Traceback" not in done.stderr
