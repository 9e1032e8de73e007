"""Lance's deletion files through pylance: read, and written by pylance's commit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import PositionBitmap, arrow, dv, errors
from puffin_fast import lance as ours
from tests.conftest import require_module
from tests.kit.mounts import may_mount, run_read_only
from tests.lance.deletions import GOLDEN


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
    assert ours.delete_positions(dataset, {0: [1]}, dry_run=True).latest_version == dataset.version
    newer = ours.delete_positions(dataset, {0: [1, 2, 7], 1: range(30)})
    after = set(newer.to_table()["id"].to_pylist())
    assert before - after == {1, 2} | (before & set(range(200, 230)))
    assert after < before
    assert ours.delete_positions(newer, {0: []}).version == newer.version
    emptied = ours.delete_positions(newer, {0: range(200)})
    assert set(emptied.to_table()["id"].to_pylist()) == {i for i in after if i >= 200}
    emptied.delete("id >= 230 and id < 240")  # Lance goes on
    assert set(emptied.to_table()["id"].to_pylist()) == {i for i in after if i >= 240}


@pytest.mark.parametrize("how", ["clone", "branch"])
def test_clones_and_branches_are_read_and_changed(how: str, dataset: Any, tmp_path: Path) -> None:
    before = ours.vectors(dataset)
    if how == "clone":
        copy = dataset.shallow_clone(str(tmp_path / "clone.lance"), dataset.version)
    else:
        copy = dataset.create_branch("more")
    assert ours.vectors(copy) == before
    live = set(copy.to_table()["id"].to_pylist())
    changed = ours.delete_positions(copy, {0: [1, 2, 7]})
    assert changed.uri == copy.uri
    assert set(changed.to_table()["id"].to_pylist()) == live - {1, 2, 7}
    found = ours.vectors(changed)
    first = set(arrow.decode(before["blob"])[0].as_py())
    assert arrow.decode(found["blob"])[0].as_py() == sorted(first | {1, 2, 7})
    assert found["blob"][1:] == before["blob"][1:]
    assert ours.vectors(require_module("lance").dataset(dataset.uri)) == before


def test_an_older_version_has_its_vectors_and_is_not_written(dataset: Any) -> None:
    """Neither a version, nor a tag, nor the version of a branch."""
    before, version = ours.vectors(dataset), dataset.version
    dataset.tags.create("first", version)
    newest = ours.delete_positions(dataset, {0: [1, 2]})
    lance = require_module("lance")
    more = newest.create_branch("more")
    ours.delete_positions(more, {1: [3]})
    for opened in (
        dataset,
        lance.dataset(dataset.uri, version=version),
        lance.dataset(dataset.uri, version="first"),
        newest.checkout_version("first"),
    ):
        assert ours.vectors(opened) == before
        assert not ours.verify(opened)
        with pytest.raises(errors.ConflictError, match=f"version {version} is outdated.*{newest.version}"):
            ours.delete_positions(
                opened, {1: [5]}
            )  # another fragment: Lance would put it on the newest version
    with pytest.raises(errors.ConflictError, match="outdated"):
        ours.delete_positions(more, {0: [5]})
    assert ours.vectors(lance.dataset(dataset.uri)) == ours.vectors(newest) != before


def test_the_store_of_a_dataset_is_kept() -> None:
    lance = require_module("lance", "pip install 'puffin-fast[lance]'")
    dataset = lance.write_dataset(pa.table({"id": range(10)}), "memory://rows")
    newer = ours.delete_positions(dataset, {0: range(4)})
    assert newer.to_table()["id"].to_pylist() == [*range(4, 10)]
    with pytest.raises(errors.ConflictError, match="outdated"):
        ours.delete_positions(dataset, {0: [5]})
    assert (dataset.version, newer.version) == (1, 2)


@pytest.mark.parametrize("deletes", [[1], None, {"0": [1]}, {0: 5}, {0: ["a"]}])
def test_what_maps_no_fragments_to_offsets_is_refused(deletes: Any, dataset: Any) -> None:
    with pytest.raises(errors.InvalidInputError, match="expected"):
        ours.delete_positions(dataset, deletes)
    assert dataset.latest_version == dataset.version


def test_what_the_dataset_does_not_have_is_refused(dataset: Any) -> None:
    with pytest.raises(errors.NotFoundError, match="no fragment 7"):
        ours.delete_positions(dataset, {7: [1]})
    with pytest.raises(errors.InvalidInputError, match=r"below 200 .* found 200"):
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


@pytest.mark.parametrize("form", ["arrow", "bin"])
def test_offsets_that_a_fragment_does_not_have_are_refused(form: str, dataset: Any) -> None:
    """The number of deleted rows is right; `.bin` files have no checksum."""
    root = Path(dataset.uri)
    row = next(row for row in ours.vectors(dataset).to_pylist() if row["deletion_file"].endswith(form))
    positions = range(row["n_rows"] - row["cardinality"] + 1, row["n_rows"] + 1)
    file = root / row["deletion_file"]
    file.write_bytes(dv.lance.encode(PositionBitmap.from_positions(positions), form=form))
    with pytest.raises(
        errors.CorruptDataError, match=f"below {row['n_rows']} .* found {row['n_rows']}"
    ) as caught:
        ours.vectors(dataset)
    assert caught.value.path == str(file)


def test_a_number_of_deleted_rows_that_lies_is_refused(dataset: Any) -> None:
    root = Path(dataset.uri)
    for row in ours.vectors(dataset).to_pylist():
        file = root / row["deletion_file"]
        data, form = file.read_bytes(), file.suffix[1:]
        for n in (row["cardinality"] - 1, row["cardinality"] + 1):
            file.write_bytes(dv.lance.encode(PositionBitmap.from_positions(range(n)), form=form))
            with pytest.raises(errors.CorruptDataError, match=f"expected {row['cardinality']}.* found {n}"):
                ours.vectors(dataset)
        file.write_bytes(data)


# Kills -------------------------------------------------------------------------------------------------------

READ_ONLY = """
import sys
from puffin_fast import errors, lance
print(lance.vectors(sys.argv[1]).num_rows)
try:
    lance.delete_positions(sys.argv[1], {0: [1, 2]})
except errors.InvalidInputError as error:
    print("Read-only" in str(error) and sys.argv[1] in str(error))
"""


@pytest.mark.skipif(not may_mount(), reason="needs unshare and user namespaces to mount a folder read-only")
@pytest.mark.parametrize("folder", ["", "_versions"])
def test_a_dataset_on_read_only_storage_is_read_and_deletes_are_refused(folder: str, dataset: Any) -> None:
    rows = dataset.to_table()
    assert run_read_only(Path(dataset.uri) / folder, READ_ONLY, dataset.uri) == ["2", "True"]
    assert dataset.checkout_version(dataset.latest_version).to_table() == rows


KILLED = """
import os, signal, sys
import lance
from puffin_fast import lance as ours

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(function, n):
    "Kills after the nth call."
    calls = []
    def call(*args, **options):
        found = function(*args, **options)
        calls.append(1)
        return kill() if len(calls) == n else found
    return call

step, uri = sys.argv[1:]
if step == "after_the_first_file":
    lance.LanceFragment.delete_rows = after(lance.LanceFragment.delete_rows, 1)
elif step == "after_the_last_file":
    lance.LanceFragment.delete_rows = after(lance.LanceFragment.delete_rows, 2)
elif step == "before_the_commit":
    lance.LanceDataset.commit = kill
elif step == "after_the_commit":
    lance.LanceDataset.commit = after(lance.LanceDataset.commit, 1)
print("ready", flush=True)
ours.delete_positions(uri, {0: [1, 2, 7], 1: range(30)})
"""


@pytest.mark.parametrize(
    "step", ["after_the_first_file", "after_the_last_file", "before_the_commit", "after_the_commit"]
)
def test_a_killed_delete_is_whole_or_not_there(step: str, dataset: Any) -> None:
    before = dataset.to_table()
    command = [sys.executable, "-c", KILLED, step, dataset.uri]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    lance = require_module("lance")
    now = lance.dataset(dataset.uri)
    happened = step == "after_the_commit"
    assert (now.version > dataset.version) == happened
    assert (now.to_table() == before) == (not happened)
    again = ours.delete_positions(now, {0: [1, 2, 7], 1: range(30)})
    gone = {1, 2, 7, *range(200, 230)}
    assert set(again.to_table()["id"].to_pylist()) == set(before["id"].to_pylist()) - gone
    ours.vectors(again)


def test_a_delete_that_is_killed_while_it_commits_is_whole_or_not_there(dataset: Any) -> None:
    """Killed as soon as its transaction file is there: pylance's own commit decides."""
    before = dataset.to_table()
    transactions = Path(dataset.uri) / "_transactions"
    files = set(transactions.iterdir())
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", KILLED, "while_it_commits", dataset.uri]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        while set(transactions.iterdir()) == files and child.poll() is None:
            pass
        child.kill()
    now = require_module("lance").dataset(dataset.uri)
    gone = {1, 2, 7, *range(200, 230)} if now.version > dataset.version else set()
    assert set(now.to_table()["id"].to_pylist()) == set(before["id"].to_pylist()) - gone
    ours.vectors(now)
