"""Lance's deletion files through pylance: read, and written by its own commit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from puffin_fast import arrow, errors
from puffin_fast import lance as ours
from tests.conftest import require_module

GOLDEN = Path(__file__).parents[1] / "golden" / "lance"


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    lance = require_module("lance", "pip install 'puffin-fast[lance]'")
    name = "array_and_bitmap.lance"
    return lance.dataset(str(shutil.copytree(GOLDEN / name, tmp_path / name)))


def test_deletion_files_of_both_forms_are_read(dataset: Any) -> None:
    (answer,) = json.loads((GOLDEN / "expected.json").read_text()).values()
    found = ours.vectors(dataset)
    assert found["deletion_file"].to_pylist() == list(answer["files"])
    assert found["cardinality"].to_pylist() == [file["cardinality"] for file in answer["files"].values()]
    assert found["n_rows"].to_pylist() == [file["rows"] for file in answer["files"].values()]
    first = next(iter(answer["files"].values()))
    assert arrow.decode(found["blob"]).to_pylist()[0] == first["deleted"]


def test_rows_go_by_fragment_and_offset(dataset: Any) -> None:
    before = set(dataset.to_table()["id"].to_pylist())
    newer = ours.delete_positions(dataset, {0: [1, 2, 7], 1: range(30)})
    after = set(newer.to_table()["id"].to_pylist())
    assert before - after == {1, 2} | (before & set(range(200, 230)))
    assert after < before
    assert ours.delete_positions(newer, {0: []}).version == newer.version
    emptied = ours.delete_positions(newer, {0: range(200)})
    assert set(emptied.to_table()["id"].to_pylist()) == {i for i in after if i >= 200}


def test_what_the_dataset_does_not_have_is_refused(dataset: Any) -> None:
    with pytest.raises(errors.NotFoundError, match="no fragment 7"):
        ours.delete_positions(dataset, {7: [1]})
    with pytest.raises(errors.InvalidInputError, match="offset 200"):
        ours.delete_positions(dataset, {0: [200]})


def test_a_dataset_that_another_commit_changed_is_a_conflict(dataset: Any) -> None:
    newer = ours.delete_positions(dataset, {0: [1, 2]})
    rows = newer.to_table()
    with pytest.raises(errors.ConflictError, match="outdated"):
        ours.delete_positions(dataset, {0: [7]})
    assert newer.checkout_version(newer.latest_version).to_table() == rows


def test_what_is_no_dataset_is_refused(tmp_path: Path) -> None:
    require_module("lance", "pip install 'puffin-fast[lance]'")
    with pytest.raises(errors.NotFoundError, match="nothing"):
        ours.vectors(tmp_path / "nothing")
    with pytest.raises(errors.InvalidInputError, match="int"):
        ours.delete_positions(5, {0: [1]})


def test_torn_and_missing_deletion_files_are_named(dataset: Any) -> None:
    root = Path(dataset.uri)
    for name in ours.vectors(dataset)["deletion_file"].to_pylist():
        data = (root / name).read_bytes()
        for altered in (data[:-1], data[: len(data) // 2], b""):
            (root / name).write_bytes(altered)
            with pytest.raises(errors.CorruptDataError, match=Path(name).name):
                ours.vectors(dataset)
        (root / name).unlink()
        with pytest.raises(errors.NotFoundError, match=Path(name).name):
            ours.vectors(dataset)
        (root / name).write_bytes(data)
