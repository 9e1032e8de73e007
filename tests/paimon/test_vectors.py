"""Paimon's deletion vectors, read from tables that Paimon in Java wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin_fast import arrow, errors, paimon
from tests.paimon.tables import ANSWERS, LIES, TABLES, folder, rewrite


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a golden table, to damage it."""
    return lambda name: Path(shutil.copytree(folder(name), tmp_path / name))


@pytest.mark.parametrize("name", TABLES)
def test_the_vectors_of_each_golden_table_are_the_answers(name: str) -> None:
    found = paimon.vectors(folder(name))
    read = {
        row["file_name"]: (deleted, row["version"], row["cardinality"])
        for row, deleted in zip(found.to_pylist(), arrow.decode(found["blob"]).to_pylist(), strict=True)
    }
    assert read == {
        file: (answer["deleted"], answer["version"], len(answer["deleted"]))
        for file, answer in ANSWERS[name]["files"].items()
        if answer["deleted"]
    }
    (newest,) = [paimon.vectors(folder(name), snapshot_id=ANSWERS[name]["snapshot"])]
    assert newest == found


def test_what_is_no_table_or_snapshot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="no snapshots of a Paimon table"):
        paimon.vectors(tmp_path)
    with pytest.raises(errors.NotFoundError, match=r"expected a snapshot from .* found 99"):
        paimon.vectors(folder("app_v2"), snapshot_id=99)


@pytest.mark.parametrize("name", ["app_v1_part", "app_v2", "app_mix"])
def test_torn_and_missing_index_files_are_named(name: str, tmp_path: Path) -> None:
    table = Path(shutil.copytree(folder(name), tmp_path / name))
    used = set(paimon.vectors(table)["index_file"].to_pylist())
    for file in sorted(used):
        path = table / "index" / file
        data = path.read_bytes()
        for altered in (data[:20], data[:-1], data[:12] + bytes([data[12] ^ 1]) + data[13:]):
            path.write_bytes(altered)
            with pytest.raises(errors.CorruptDataError, match=file):
                paimon.vectors(table)
        path.unlink()
        with pytest.raises(errors.NotFoundError, match=file):
            paimon.vectors(table)
        path.write_bytes(data)
    for manifest in (table / "manifest").glob("index-manifest-*"):
        manifest.write_bytes(manifest.read_bytes()[:30])
    with pytest.raises(errors.CorruptDataError, match=r"index-manifest-.* of an Avro file"):
        paimon.vectors(table)


# What an index manifest may say ------------------------------------------------------------------------------


def test_ranges_are_read_as_java_and_as_pypaimon_write_them(copy: Callable[[str], Path]) -> None:
    table = copy("app_mix")
    before = paimon.vectors(table)
    rewrite(table, lambda entry: None, plain_items=True)
    assert paimon.vectors(table) == before


def test_index_files_elsewhere_and_removed_ones_are_followed(copy: Callable[[str], Path]) -> None:
    table = copy("app_v1_part")
    before = paimon.vectors(table)
    elsewhere = table.parent / "elsewhere"
    (table / "index").rename(elsewhere)
    with pytest.raises(errors.NotFoundError, match="index-"):
        paimon.vectors(table)
    rewrite(table, lambda entry: entry.update(_EXTERNAL_PATH=f"{elsewhere}/{entry['_FILE_NAME']}"))
    assert paimon.vectors(table) == before
    rewrite(table, lambda entry: entry.update(_KIND=1), appended=True)
    assert paimon.vectors(table).num_rows == 0


@pytest.mark.parametrize(("lie", "message"), LIES)
def test_an_entry_that_would_hide_vectors_is_refused(
    lie: Callable[[dict[str, Any]], object], message: str, copy: Callable[[str], Path]
) -> None:
    table = copy("app_v2")
    rewrite(table, lie)
    with pytest.raises(errors.CorruptDataError, match=message):
        paimon.vectors(table)


def test_a_length_is_that_of_the_record_with_or_without_its_frame(copy: Callable[[str], Path]) -> None:
    """V1 leaves out the length field and the checksum, V2 does not; both are taken for either version."""
    table = copy("app_mix")
    before = paimon.vectors(table)
    rewrite(
        table,
        lambda entry: [
            one.update(f2=one["f2"] + 8 * (one["f2"] == 50) - 8 * (one["f2"] == 54))
            for one in entry["_DELETIONS_VECTORS_RANGES"]
        ],
    )
    assert paimon.vectors(table) == before


@pytest.mark.parametrize("name", ["app_v1_part", "app_v2"])
@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"f1": 0}, "length of a deletion vector"),
        ({"f1": 2}, "length of a deletion vector"),
        ({"f1": 5000}, "beyond the end"),
        ({"f1": -1}, "range of a deletion vector"),
        ({"f2": 7}, "length of a deletion vector"),
        ({"_CARDINALITY": 5}, "cardinality"),
    ],
)
def test_a_range_that_lies_is_refused_by_its_place(
    name: str, lie: dict[str, int], message: str, copy: Callable[[str], Path]
) -> None:
    table = copy(name)
    rewrite(table, lambda entry: [one.update(lie) for one in entry["_DELETIONS_VECTORS_RANGES"]])
    with pytest.raises(errors.CorruptDataError, match=message) as caught:
        paimon.vectors(table)
    assert "/index/index-" in str(caught.value.path)
    assert None not in (caught.value.expected, caught.value.found)


def test_a_version_that_is_not_known_and_other_snapshots_are_refused(copy: Callable[[str], Path]) -> None:
    table = copy("app_v2")
    snapshots = {path: path.read_bytes() for path in (table / "snapshot").glob("snapshot-*")}
    manifest = rewrite(table, lambda entry: entry.update(_VERSION=2))
    with pytest.raises(errors.UnsupportedError, match="index manifest of version 2") as refused:
        paimon.vectors(table)
    assert str(manifest) in str(refused.value)
    for text in (b"", b"{", b"[1]", b'"x"', snapshots[max(snapshots)][:100]):
        for path in snapshots:
            path.write_bytes(text)
        with pytest.raises(errors.CorruptDataError, match="expected a JSON object") as caught:
            paimon.vectors(table)
        assert "/snapshot/snapshot-" in str(caught.value.path)
    for path in snapshots:
        path.write_bytes(b"{}")
    assert paimon.vectors(table).num_rows == 0
    for path in snapshots:
        path.write_bytes(b'{"indexManifest":"index-manifest-gone"}')
    with pytest.raises(errors.NotFoundError, match="index-manifest-gone"):
        paimon.vectors(table)
