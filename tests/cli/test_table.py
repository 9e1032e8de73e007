"""The command ``delete``: its effect on a table, and its errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from pyiceberg.catalog.sql import SqlCatalog

from tests.cli.tables import Options, count, open_table

Run = Callable[..., Result]


def test_delete_deletes_and_says_how_many(run: Run, catalog_options: Options) -> None:
    result = run(
        "delete", "ns.t", "--row-filter", "id >= 10 and id < 30", "--output", "json", *catalog_options
    )
    assert result.exit_code == 0, result.output
    (said,) = json.loads(result.output)
    assert said["rows_deleted"] == 20
    assert said["snapshot_id"] == open_table(catalog_options).metadata.current_snapshot_id
    assert count(catalog_options) == 980


@pytest.mark.parametrize("row_filter", ["id < 5", "nobody < 5"])
def test_the_catalog_is_closed_when_a_command_ends_or_fails(
    run: Run, catalog_options: Options, monkeypatch: pytest.MonkeyPatch, row_filter: str
) -> None:
    close, closed = SqlCatalog.close, list[SqlCatalog]()

    def closing(catalog: SqlCatalog) -> None:
        closed.append(catalog)
        close(catalog)

    monkeypatch.setattr(SqlCatalog, "close", closing)
    run("delete", "ns.t", "--row-filter", row_filter, *catalog_options)
    assert len(closed) == 1


def test_catalog_options_may_stand_before_the_command(run: Run, catalog_options: Options) -> None:
    assert run(*catalog_options, "delete", "ns.t", "--row-filter", "id = 1").exit_code == 0
    assert count(catalog_options) == 999


def test_a_dry_run_counts_and_leaves_the_table(run: Run, catalog_options: Options) -> None:
    before = open_table(catalog_options).metadata_location
    result = run(
        "delete", "ns.t", "--row-filter", "word = 'w1'", "--dry-run", "--output", "json", *catalog_options
    )
    assert json.loads(result.output)[0]["rows_deleted"] == 143
    assert open_table(catalog_options).metadata_location == before


def test_a_filter_that_matches_nothing_commits_nothing(run: Run, catalog_options: Options) -> None:
    before = open_table(catalog_options).metadata_location
    result = run("delete", "ns.t", "--row-filter", "id < 0", "--output", "json", *catalog_options)
    assert result.exit_code == 0
    assert json.loads(result.output)[0]["rows_deleted"] == 0
    assert open_table(catalog_options).metadata_location == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("ns.t", "--row-filter", "nothing = 1"), "nothing"),
        (("ns.t", "--row-filter", "id ="), "id ="),
        (("ns.t", "--row-filter", "id = 1", "--branch", "twig"), "twig"),
        (("ns.other", "--row-filter", "id = 1"), "ns.other"),
        (("other.t", "--row-filter", "id = 1"), "other.t"),
    ],
)
def test_errors_are_one_line_that_names_the_cause(
    run: Run, catalog_options: Options, arguments: tuple[str, ...], named: str
) -> None:
    before = open_table(catalog_options).metadata_location
    result = run("delete", *arguments, *catalog_options)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert named in result.stderr
    assert open_table(catalog_options).metadata_location == before


def test_a_catalog_that_cannot_be_opened_is_one_line(run: Run, tmp_path: Path) -> None:
    result = run("delete", "ns.t", "--row-filter", "id = 1", "--uri", "nonsense://x")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1


def test_a_delete_without_a_filter_is_wrong_usage(run: Run, catalog_options: Options) -> None:
    assert run("delete", "ns.t", *catalog_options).exit_code == 2


@pytest.mark.spark
def test_delete_through_spark_does_the_same(run: Run, spark: object, catalog_options: Options) -> None:
    arguments = ("--row-filter", "id >= 10 and id < 30", "--spark", "--output", "json")
    result = run("delete", "ns.t", *arguments, *catalog_options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)[0]["rows_deleted"] == 20
    assert count(catalog_options) == 980


@pytest.mark.spark
def test_a_filter_means_the_same_through_spark(run: Run, spark: object, catalog_options: Options) -> None:
    """Spark's SQL would read "id" as text."""
    text = """"id" >= 10 and not (word like 'w_' and id > 29.5) or id > 1e30"""
    arguments = ("delete", "ns.t", "--row-filter", text, "--output", "json", *catalog_options)
    planned = run(*arguments, "--dry-run")
    done = run(*arguments, "--spark")
    assert done.exit_code == 0, done.output
    deleted = [json.loads(result.output)[0]["rows_deleted"] for result in (planned, done)]
    assert deleted == [20, 20]
    assert count(catalog_options) == 980


def test_the_installed_command_has_no_traceback(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("puffin-fast")), "inspect", str(tmp_path / "x.puffin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("puffin-fast: error: ")
    assert "Traceback" not in done.stderr
