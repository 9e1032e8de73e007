"""Values of every kind in place of each value of a log: an error of this package, or an answer that keeps the laws."""

from __future__ import annotations

import os
import random
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, errors
from tests.delta.conftest import GOLDEN, TABLES
from tests.delta.log.values import VALUES, cases, columns_of, mutate, mutate_column, wrong

N_CASES = int(os.environ.get("PUFFIN_FAST_OPERATIONS", 100))


def chosen(seed: int, n: int) -> list[tuple[str, Path, Any, str]]:
    """Some of the values of golden tables; one of each kind of field: table, file, place of the value, new value."""
    found: dict[Any, tuple[str, Path, Any, str]] = {}
    for name in TABLES:
        for file, line, place in cases(GOLDEN / name):
            if place[:1] == ("commitInfo",) and place[1:] not in ((), ("inCommitTimestamp",)):
                continue
            for kind in VALUES:
                names = tuple(step for step in place if not isinstance(step, int))
                found.setdefault((names, kind), (name, file, (line, place), kind))
        for file in sorted((GOLDEN / name / "_delta_log").rglob("*.parquet")):
            for place in columns_of(pq.read_schema(file)):
                for kind in VALUES:
                    where = file.relative_to(GOLDEN / name)
                    found.setdefault(("parquet", place, kind), (name, where, place, kind))
    return random.Random(seed).sample(sorted(found.values(), key=repr), n)


def mutated(folder: Path, case: tuple[str, Path, Any, str]) -> Path | None:
    name, file, place, kind = case
    table = Path(shutil.copytree(GOLDEN / name, folder / name))
    try:
        if file.suffix == ".json":
            mutate(table, file, *place, VALUES[kind])
        else:
            mutate_column(table / file, place, VALUES[kind])
    except (pa.ArrowException, UnicodeError, OverflowError):  # no Parquet file has such a value
        return None
    return table


def test_any_value_is_refused_or_read(tmp_path: Path) -> None:
    for number, case in enumerate(chosen(0, N_CASES // 2)):
        folder = tmp_path / str(number)
        if (table := mutated(folder, case)) is None:
            continue
        try:
            scan = delta.scan(table)
            assert scan.count() == scan.to_arrow().num_rows, case
        except errors.PuffinFastError:
            pass
        except Exception as error:
            pytest.fail(f"{case}: {error!r}")
        shutil.rmtree(folder)


def test_a_checkpoint_with_a_removed_file_without_path_lists_no_orphan_files(tmp_path: Path) -> None:
    table = Path(shutil.copytree(GOLDEN / "spark_v1_checkpoint", tmp_path / "t"))
    (checkpoint,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    mutate_column(checkpoint, ("remove", "path"), None)
    with pytest.raises(errors.CorruptDataError, match=f"{checkpoint.name}.*expected a path"):
        delta.orphan_files(table, older_than=timedelta(0))


def test_all_verbs_refuse_or_keep_their_laws(tmp_path: Path) -> None:
    for number, case in enumerate(chosen(1, N_CASES // 20)):
        folder = tmp_path / str(number)
        if (table := mutated(folder, case)) is None:
            continue
        assert wrong(table, folder / "copies") == [], case
        shutil.rmtree(folder)
