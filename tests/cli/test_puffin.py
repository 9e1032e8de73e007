"""``inspect`` and ``verify`` on valid and damaged files, and on files of other formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import puffin_fast as pf
from puffin_fast.puffin.vectors import check_vectors

Run = Callable[..., Result]

SETS = {"a.parquet": [0, 5, 70_000, 2**32 + 3], "b.parquet": range(10, 5010)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "v.puffin"
    pf.write_vectors(str(path), [(name, pf.PositionBitmap.from_positions(p)) for name, p in SETS.items()])
    return path


def damage(file: Path, offset: int) -> None:
    data = bytearray(file.read_bytes())
    data[offset] ^= 1
    file.write_bytes(data)


def test_inspect_tells_blobs_properties_containers_and_sizes(run: Run, file: Path) -> None:
    result = run("inspect", file, "--output", "json")
    assert result.exit_code == 0
    said = json.loads(result.output)
    assert said["file-size-in-bytes"] == file.stat().st_size
    assert "puffin" in said["properties"]["created-by"]
    first, second = said["blobs"]
    assert first["type"] == "deletion-vector-v1"
    assert first["properties"] == {"referenced-data-file": "a.parquet", "cardinality": "4"}
    assert first["content"]["cardinality"] == 4
    assert second["content"]["containers"] == {"array": 0, "bitmap": 0, "run": 1}
    assert second["length"] == second["content"]["n_bytes"]


def test_inspect_as_a_table_names_the_data_files(run: Run, file: Path) -> None:
    output = run("inspect", file).output
    assert "referenced-data-file" in output
    (row,) = [line for line in output.splitlines() if "a.parquet" in line]
    assert "deletion-vector-v1" in row


def test_verify_accepts_what_we_write(run: Run, file: Path) -> None:
    result = run("verify", file, "--output", "json")
    assert result.exit_code == 0
    assert [row["error"] for row in json.loads(result.output)] == [None, None]


@pytest.mark.parametrize("offset", [4, 8, 12, 20, 40])
def test_verify_fails_on_any_altered_blob_and_names_it(run: Run, file: Path, offset: int) -> None:
    damage(file, offset)
    result = run("verify", file, "--output", "json")
    assert result.exit_code == 1
    first, second = json.loads(result.output)
    assert str(file) in first["error"]
    assert second["error"] is None


WRONG: dict[str, list[dict[str, object]]] = {
    "a second vector": [{}, {"properties": {"referenced-data-file": "a", "cardinality": "1"}}],
    "overlaps the previous blob": [{}, {"offset": 10}],
    "property cardinality": [{"properties": {"referenced-data-file": "a"}}],
    "property referenced-data-file": [{"properties": {"cardinality": "1"}}],
    "zstd": [{"compression-codec": "zstd"}],
    "expected 2, found 1": [{"properties": {"referenced-data-file": "a", "cardinality": "2"}}],
}


@pytest.mark.parametrize("message", WRONG)
def test_verify_of_a_file_finds_what_check_vectors_finds(run: Run, tmp_path: Path, message: str) -> None:
    path = tmp_path / "wrong.puffin"
    blob = pf.dv.iceberg.encode(pf.PositionBitmap.from_positions([1]))
    blobs = []
    for number, wrong in enumerate(WRONG[message]):
        right = {
            "type": "deletion-vector-v1",
            "fields": [2147483645],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": 4 + number * len(blob),
            "length": len(blob),
            "properties": {"referenced-data-file": "ab"[number], "cardinality": "1"},
        }
        blobs.append(right | wrong)
    payload = json.dumps({"blobs": blobs}).encode()
    footer = b"PFA1" + payload + len(payload).to_bytes(4, "little") + bytes(4) + b"PFA1"
    path.write_bytes(b"PFA1" + blob * len(blobs) + footer)
    result = run("verify", path, "--output", "json")
    assert result.exit_code == 1
    wrong = [row for row in json.loads(result.output) if row["error"]]
    kind = "duplicate" if message == "a second vector" else "corrupt"
    assert {row["kind"] for row in wrong} == {kind}
    errors = [row["error"] for row in wrong]
    assert any(message in error for error in errors), errors
    assert {problem.message for problem in check_vectors(path)} == {
        one for error in errors for one in error.split("; ")
    }


def test_inspect_shows_a_damaged_blob_and_goes_on(run: Run, file: Path) -> None:
    damage(file, 20)
    result = run("inspect", file, "--output", "json")
    assert result.exit_code == 0
    first, second = json.loads(result.output)["blobs"]
    assert "error" in first["content"]
    assert second["content"]["cardinality"] == 5000


@pytest.mark.parametrize("command", ["inspect", "verify"])
@pytest.mark.parametrize("content", [b"", b"PFA1", b"not a Puffin file at all", b"PFA1" * 8])
def test_what_is_no_puffin_file_is_one_line_and_exit_code_1(
    run: Run, tmp_path: Path, command: str, content: bytes
) -> None:
    path = tmp_path / "x.puffin"
    path.write_bytes(content)
    result = run(command, path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert str(path) in result.stderr


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_missing_file_is_one_line_and_exit_code_1(run: Run, tmp_path: Path, command: str) -> None:
    result = run(command, tmp_path / "nothing.puffin")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "nothing.puffin" in result.stderr


@pytest.mark.parametrize("arguments", [("inspect",), ("nonsense",), ("inspect", "f", "--output", "xml")])
def test_wrong_usage_is_exit_code_2(run: Run, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_version_and_help(run: Run) -> None:
    assert run("--version").output.strip() == pf.__version__
    for command in ("inspect", "verify", "delete"):
        assert command in run("--help").output
        assert run(command, "--help").exit_code == 0
