"""Type checkers know the public names, and no others."""

from __future__ import annotations

import ast
import inspect
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import puffin_fast as pf

ROOT = Path(__file__).parents[2]

KNOWN = """
import puffin_fast as pf
caught: type[pf.PuffinFastError] = pf.InvalidInputError
warned: type[UserWarning] = pf.EngineSupportWarning
made = pf.iceberg.to_delta, pf.iceberg.scan, pf.spark.upsert, pf.delta.scan
"""


def test_unknown_names_are_errors_of_mypy(tmp_path: Path) -> None:
    unknown = ("pf.nope", "pf.iceberg.nope", "pf.delta.nope", "pf.spark.nope")
    path = tmp_path / "names.py"
    path.write_text("\n".join([KNOWN, *unknown]))
    # only this file is checked, and what other packages have is not read: `make types` checks the package
    others = ["--ignore-missing-imports", "--no-site-packages", "--follow-imports=silent"]
    options = ["--config-file=", "--cache-dir", str(tmp_path / "cache"), *others]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT)},
    )
    assert done.stdout.count('Module has no attribute "nope"') == len(unknown), done.stdout
    assert f"Found {len(unknown)} errors" in done.stdout


def test_unknown_names_are_attribute_errors() -> None:
    for module in (pf, pf.iceberg, pf.delta, pf.spark):
        with pytest.raises(AttributeError, match="nope"):
            module.nope  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("typo", "right"),
    [
        ("pf.iceburg", "iceberg"),
        ("pf.iceberg.upsrt", "upsert"),
        ("pf.delta.delte", "delete"),
        ("pf.arrow.decod", "decode"),
        ("pf.dv.icebrg", "iceberg"),
        ("pf.PositionBitmap([1]).intersectoin", "intersection"),
    ],
)
def test_a_typo_keeps_the_suggestion_of_python(typo: str, right: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import puffin_fast as pf; {typo}"], capture_output=True, text=True
    )
    assert f"Did you mean: '{right}'?" in done.stderr


def test_no_name_is_a_function_and_a_package() -> None:
    for module in (pf, pf.iceberg, pf.delta, pf.paimon, pf.lance, pf.spark, pf.dv, pf.puffin):
        for name in {found.name for found in pkgutil.iter_modules(module.__path__)} & set(dir(module)):
            assert inspect.ismodule(getattr(module, name)), f"{module.__name__}.{name}"


@pytest.mark.parametrize("package", ["iceberg", "delta", "spark"])
def test_what_type_checkers_see_is_what_is_loaded(package: str) -> None:
    module = getattr(pf, package)
    tree = ast.parse(Path(module.__file__).read_text())
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    homes = {
        alias.name: str(statement.module).removeprefix("puffin_fast.")
        for statement in typed.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert homes == (module._homes if package == "spark" else module._HOMES)
    assert homes.keys() <= set(module.__all__)
    for name in homes:
        assert getattr(module, name).__name__ == name
    assert set(dir(module)) == set(module.__all__)


def test_a_package_loads_only_what_is_used() -> None:
    code = "import sys, puffin_fast as pf; pf.iceberg.Finding; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert not {"pyiceberg.table", "puffin_fast.iceberg.dml", "puffin_fast.iceberg.scans"} & set(
        loaded.split()
    )
