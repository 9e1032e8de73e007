"""``ndv`` from the shell, and sketches in ``inspect``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from click.testing import Result

Run = Callable[..., Result]
Options = tuple[str, ...]


def said(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_ndv_collects_and_shows(run: Run, catalog_options: Options) -> None:
    assert "--collect collects them" in run("ndv", "ns.t", *catalog_options).output
    dry = said(run("ndv", "ns.t", "--collect", "--dry-run", "--output", "json", *catalog_options))[
        "collected"
    ]
    assert (dry["committed"], dry["statistics_path"], dry["dry_run"]) == (False, None, True)
    assert "nothing committed" in run("ndv", "ns.t", "--collect", "--dry-run", *catalog_options).output
    assert "--collect collects them" in run("ndv", "ns.t", *catalog_options).output
    found = said(run("ndv", "ns.t", "--collect", "--output", "json", *catalog_options))
    assert found["collected"]["ndv"] == dry["ndv"]
    assert found["collected"]["ndv"] == {"id": 1000, "word": 7}
    assert [(row["column"], row["ndv"], row["is_upper_bound"]) for row in found["columns"]] == [
        ("id", 1000, False),
        ("word", 7, False),
    ]
    again = run("ndv", "ns.t", "--collect", *catalog_options)
    assert "nothing done" in again.output
    shown = run("ndv", "ns.t", "--columns", "word", *catalog_options)
    assert "word" in shown.output
    assert "1000" not in shown.output


def test_inspect_shows_sketches(run: Run, catalog_options: Options) -> None:
    path = said(run("ndv", "ns.t", "--collect", "--output", "json", *catalog_options))["collected"][
        "statistics_path"
    ]
    found = said(run("inspect", path, "--output", "json"))
    assert [blob["content"]["estimate"] for blob in found["blobs"]] == [1000.0, 7.0]
    assert [blob["content"]["theta"] for blob in found["blobs"]] == [1.0, 1.0]


def test_wrong_use_is_refused(run: Run, catalog_options: Options) -> None:
    result = run("ndv", "ns.t", "--full", *catalog_options)
    assert result.exit_code == 2
    assert "need --collect" in result.output
    result = run("ndv", "ns.t", "--collect", "--columns", "nope", *catalog_options)
    assert result.exit_code == 1
    assert "columns: no column nope; the table has id, word" in result.output


def test_index_keys_builds_and_extends_an_index(run: Run, catalog_options: Options) -> None:
    dry = run("index-keys", "ns.t", "--join-col", "id", "--dry-run", *catalog_options)
    assert "nothing was written" in dry.output
    found = said(run("index-keys", "ns.t", "--join-col", "id", "--output", "json", *catalog_options))
    assert (found["columns"], found["rows"], found["committed"]) == (["id"], 1000, True)
    again = run("index-keys", "ns.t", "--join-col", "id", *catalog_options)
    assert "nothing done: the index has all data files" in again.output
    full = said(run("index-keys", "ns.t", "--join-col", "id", "--full", "--output", "json", *catalog_options))
    assert full["data_files_read"] == full["data_files"]
    assert "no column nope" in run("index-keys", "ns.t", "--join-col", "nope", *catalog_options).stderr
