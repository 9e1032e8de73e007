"""The package as a whole: the cost of its import, its version, its lazily loaded names."""

from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Protocol

import pytest

import puffin_fast as pf
from tests.kit.cases import each

HEAVY = {"pyspark", "pyiceberg", "pandas", "datasketches", "duckdb", "polars", "click", "rich", "fsspec"}

IMPORT_S = 0.2
"""CPU time that the import may take beyond NumPy and PyArrow."""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    "use", ["", "pf.PositionBitmap, pf.dv.iceberg, pf.arrow, pf.PuffinWriter, pf.read_vector"]
)
def test_importing_loads_nothing_heavy(use: str) -> None:
    loaded = run(
        f"import sys, puffin_fast as pf; {use}\nprint(*{{m.partition('.')[0] for m in sys.modules}})"
    )
    assert not HEAVY & set(loaded.split())


def test_importing_is_quick() -> None:
    code = (
        "import time, numpy, pyarrow.compute; began = time.process_time(); import puffin_fast as pf; "
        "pf.PositionBitmap, pf.dv, pf.arrow; print(time.process_time() - began)"
    )
    assert min(float(run(code)) for _ in range(3)) < IMPORT_S


def test_versions_agree() -> None:
    assert pf.__version__ == importlib.metadata.version("puffin-fast")


@each("name", pf.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(pf, name) is not None
    assert name in dir(pf)


def public_modules(module: ModuleType = pf) -> Iterator[ModuleType]:
    """The modules that users find from the package by its public names."""
    yield module
    for name in module.__all__:
        if inspect.ismodule(value := getattr(module, name)):
            yield from public_modules(value)


def test_completion_shows_only_public_names() -> None:
    found = {module.__name__: dir(module) for module in public_modules()}
    assert {"puffin_fast.dv.iceberg", "puffin_fast.spark.dataframe.functions"} <= {*found}
    for module in public_modules():
        missing = {"__version__"} if module is pf else set()
        assert {*dir(module)} == {*module.__all__} | missing, module.__name__


def test_public_classes_say_what_an_object_is() -> None:
    for module in public_modules():
        values = [getattr(module, name) for name in module.__all__]
        for value in values:
            if inspect.isclass(value) and not issubclass(value, Protocol):
                assert value.__repr__ is not object.__repr__, value


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pf.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("package", "use", "extra"),
    [
        ("pyiceberg", "pf.iceberg.scan", "iceberg"),
        ("pyiceberg", "pf.paimon.vectors", "paimon"),
        ("pyspark", "pf.spark.encode_deletes(None)", "spark"),
    ],
)
def test_a_missing_extra_is_named(package: str, use: str, extra: str) -> None:
    said = run(
        f"import sys; sys.modules[{package!r}] = None\n"
        f"import puffin_fast as pf\ntry:\n    {use}\n"
        "except pf.errors.MissingExtraError as error:\n    print(error)"
    )
    assert f"puffin-fast[{extra}]" in said


@pytest.mark.parametrize(
    "use",
    [
        "from puffin_fast import *; print('iceberg' in globals())",
        "import inspect; print('iceberg' in dict(inspect.getmembers(pf)))",
        "import pydoc; print('write_vectors' in pydoc.render_doc(pf, renderer=pydoc.plaintext))",
        "import pydoc; print('puffin-fast[iceberg]' in pydoc.render_doc(pf.iceberg, renderer=pydoc.plaintext))",
        "print(hasattr(pf, 'iceberg'), hasattr(pf, 'spark'))",
        "import copy, inspect; inspect.getmembers(pf.spark); print(inspect.ismodule(pf.iceberg))",
    ],
)
def test_the_package_can_be_looked_at_without_extras(use: str) -> None:
    missing = "import sys; sys.modules['pyiceberg'] = sys.modules['pyspark'] = None\n"
    assert set(run(f"{missing}import puffin_fast as pf; {use}").split()) == {"True"}
