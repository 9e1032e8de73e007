"""The table of another format than a function expects is named, with the package for it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import puffin_fast as pf
from tests.conftest import require_module

GOLDEN = Path(__file__).parents[1] / "golden" / "paimon" / "d.db" / "app_v2"
ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def folders(catalog: Any, tmp_path: Path) -> dict[str, str]:
    """A table of each format, by the name of its package."""
    lance = require_module("lance", "pip install 'puffin-fast[lance]'")
    delta, paimon, lances = (str(tmp_path / name) for name in ("delta", "paimon", "lance"))
    pf.delta.create_table(delta, ROWS.schema)
    shutil.copytree(GOLDEN, paimon)
    lance.write_dataset(ROWS, lances)
    iceberg = pf.iceberg.create_table(catalog, "shop.t", ROWS.schema).location()
    return {"iceberg": iceberg, "delta": delta, "paimon": paimon, "lance": lances}


@pytest.mark.parametrize(
    ("package", "name", "rest"),
    [
        ("paimon", "vectors", ()),
        ("lance", "vectors", ()),
    ],
)
def test_a_table_of_another_format_is_named(
    folders: dict[str, str], package: str, name: str, rest: tuple[Any, ...]
) -> None:
    function = getattr(getattr(pf, package), name)
    for other in folders.keys() - {package}:
        with pytest.raises(
            pf.PuffinFastError, match=f"it is a table of {other.title()}: see puffin_fast.{other}"
        ):
            function(folders[other], *rest)
