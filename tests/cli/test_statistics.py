"""``ndv`` and ``index-keys`` from the shell, and sketches in ``inspect``."""

from __future__ import annotations

from tests.cli.conftest import Shell


def test_ndv_collects_and_shows(shell: Shell) -> None:
    collect = ("ndv", "ns.t", "--collect")
    dry = shell.ask(*collect, "--dry-run")["collected"]
    assert (dry["commit"]["id"], dry["statistics_path"], dry["dry_run"]) == (None, None, True)
    assert "nothing committed" in shell.says(*collect, "--dry-run")
    assert "--collect collects them" in shell.says("ndv", "ns.t")
    found = shell.ask(*collect)
    assert found["collected"]["ndv"] == dry["ndv"] == {"id": 1000, "word": 7}
    assert [(row["column"], row["ndv"], row["is_upper_bound"]) for row in found["columns"]] == [
        ("id", 1000, False),
        ("word", 7, False),
    ]
    assert "nothing done" in shell.says(*collect)
    shown = shell.says("ndv", "ns.t", "--columns", "word")
    assert ("word" in shown, "1000" in shown) == (True, False)
    blobs = Shell().ask("inspect", found["collected"]["statistics_path"])["blobs"]
    assert [blob["content"]["estimate"] for blob in blobs] == [1000.0, 7.0]
    assert [blob["content"]["theta"] for blob in blobs] == [1.0, 1.0]


def test_wrong_use_is_refused(shell: Shell) -> None:
    assert "need --collect" in shell.refused("ndv", "ns.t", "--full", code=2)
    said = shell.refused("ndv", "ns.t", "--collect", "--columns", "nope")
    assert "columns: no column nope; the table has id, word" in said
    assert "no column nope" in shell.refused("index-keys", "ns.t", "--join-col", "nope")


def test_index_keys_builds_and_extends_an_index(shell: Shell) -> None:
    index = ("index-keys", "ns.t", "--join-col", "id")
    assert "nothing was written" in shell.says(*index, "--dry-run")
    found = shell.ask(*index)
    assert (found["columns"], found["rows"], found["commit"]["files"]) == (["id"], 1000, 1)
    assert "nothing done: the index has all data files" in shell.says(*index)
    full = shell.ask(*index, "--full")
    assert full["data_files_read"] == full["data_files"]
