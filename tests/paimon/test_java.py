"""Paimon in Java reads tables that this package changed, and deletes more rows; all tables in one JVM."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import paimon
from tests import jars
from tests.conftest import require
from tests.paimon.tables import append, ids

pytestmark = pytest.mark.pypaimon

DIVISOR = 13
"""Of the ids that Java deletes."""


def has_compiler() -> bool:
    """Whether Java runs source files, which a runtime environment alone does not."""
    java = shutil.which("java")
    return java is not None and b"jdk.compiler" in subprocess.check_output([java, "--list-modules"])


def run(warehouse: Path, tables: list[str]) -> dict[str, tuple[list[int], list[int]]]:
    """The ids that Java reads, before and after its own delete, by table."""
    folder = jars.folder("paimon")
    program = Path(__file__).with_name("Tables.java")
    command = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{folder}/*"]
    done = subprocess.run(
        [*command, program, warehouse, str(DIVISOR), *tables],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert [name for name, _ in lines] == [name for name in tables for _ in range(2)]
    read = [json.loads(text) for _, text in lines]
    return {name: (read[2 * at], read[2 * at + 1]) for at, name in enumerate(tables)}


def test_java_reads_and_deletes_on_top(catalog: Any, warehouse: Path, accelerated: None) -> None:
    """V1, V2 and both mixed, partitioned or not, by nulls too, Java's vectors extended and first vectors of a table."""
    require(jars.find("paimon"), "Paimon in Java", "make jars")
    if not has_compiler():
        pytest.skip("Java's compiler is missing: install a JDK of version 11 or newer")
    rows = pa.table({"id": pa.array(range(20_000), pa.int64())})
    append(catalog, "d.first_v1", rows)
    append(catalog, "d.first_v2", rows, **{"deletion-vectors.bitmap64": "true"})
    names = ["d.app_v1_part", "d.app_null_part", "d.app_v2", "d.app_mix", "d.first_v1", "d.first_v2"]
    tables = {name: catalog.get_table(name) for name in names}
    paimon.convert_vectors(tables["d.app_mix"])  # Java does not unite vectors of two versions
    for table in tables.values():
        assert paimon.delete(table, "id < 50 AND id >= 10").rows_deleted > 0
        files = paimon.vectors(table.table_path)["file_name"].to_pylist()
        paimon.delete_positions(table, {file: [3, 4, 5] for file in files})
    ours = {name: ids(table) for name, table in tables.items()}
    found = run(warehouse, names)
    for name, table in tables.items():
        left = [number for number in ours[name] if number % DIVISOR]
        assert found[name] == (ours[name], left)
        assert ids(table) == left
        versions = set(paimon.vectors(table.table_path)["version"].to_pylist())
        assert versions == {1 if "v1" in name or "null" in name else 2}
        assert paimon.delete(table, "id >= 60 AND id < 66").rows_deleted > 0
        assert ids(table) == [number for number in left if not 60 <= number < 66]
