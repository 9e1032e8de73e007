"""The imports follow the layers: they only go down, and each dependency is imported only in its packages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests.architecture.layers import FOLDERS, LAYERS

PACKAGE = Path(__file__).parents[2] / "puffin_fast"


FOREIGN = {
    "pyiceberg": {
        "_pyiceberg",
        "avro",
        "rows",
        "verbs",
        "iceberg",
        "delta",
        "tables",
        "bridges",
        "spark",
        "cli",
    },
    "fastavro": {"avro", "rows", "iceberg", "paimon"},
    "tenacity": {"iceberg", "spark"},
    "msgspec": {"puffin", "delta"},
    "pyspark": {"spark", "cli"},
    "pandas": {"spark"},
    "datasketches": set(),
    "click": {"cli"},
    "rich": {"_concurrency", "_display", "verbs", "cli", "iceberg"},
    "duckdb": {"iceberg"},
    "polars": {"avro", "iceberg"},
    "pyroaring": set(),
}
"""Packages that are not for everyone, and who may import them."""

PRIVATE_MODULES = ("_pyiceberg/", "iceberg/compat/", "iceberg/scans/pyiceberg_scans.py")
"""The folders and the file that may use PyIceberg's private parts; the file is for PyIceberg's own scans."""

PUBLIC = ("arrow", "bitmap", "errors", "limits", "spark/dataframe/functions")
"""Modules whose names are documented where they are defined."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def package_of(module: str) -> str:
    """``dv`` of ``puffin_fast.dv.iceberg``; the empty string of ``puffin_fast`` itself."""
    return module.split(".")[1] if "." in module else ""


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes except those under ``if TYPE_CHECKING``, which never runs."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from runtime_nodes(child)


@cache
def imports(path: Path) -> tuple[tuple[str, str], ...]:
    """Returns pairs of module and imported name ('' for a plain import) that are executed at any time."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    for node in runtime_nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; absolute ones say the layer"
            yield from ((node.module or "", alias.name) for alias in node.names)


def own_targets(path: Path) -> Iterator[str]:
    for module, name in imports(path):
        folders = FOLDERS.get(module.removeprefix("puffin_fast."), ())
        if (module == "puffin_fast" and name in LAYERS) or name in folders:
            yield f"{module}.{name}"
        elif module.split(".")[0] == "puffin_fast":
            yield module


def identify(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_imports_only_go_down() -> None:
    for path in MODULES:
        here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if here == "__init__":
            assert set(own_targets(path)) == {"puffin_fast", "puffin_fast.errors"} - {"puffin_fast"}
            continue
        for target in own_targets(path):
            there = package_of(target)
            if there in ("", here):
                continue
            assert LAYERS[there] < LAYERS[here], f"{identify(path)} imports {target}"


def test_imports_between_folders_only_go_down() -> None:
    for path in MODULES:
        package, *rest = path.relative_to(PACKAGE).parts
        if package not in FOLDERS or rest == ["__init__.py"]:
            continue
        order = {folder: at for at, folder in enumerate(FOLDERS[package])}
        here = rest[0] if len(rest) > 1 else ""  # the modules beside the folders are below them
        assert here in {"", *order}, f"{package}/{here} has no place in FOLDERS"
        for target in own_targets(path):
            parts = target.split(".")
            if parts[1:2] != [package] or parts[2:3] in ([], [here]):
                continue
            assert order.get(parts[2], -1) < order.get(here, 0), f"{identify(path)} imports {target}"


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def module_imports(path: Path, modules: Set[str]) -> set[str]:
    """Returns which modules a module imports at module level or for types; an ``__init__.py`` without its own."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        for inner in node.body if isinstance(node, ast.If) else [node]:
            if isinstance(inner, ast.ImportFrom):
                full = [f"{inner.module}.{alias.name}" for alias in inner.names]
                found |= {name if name in modules else inner.module or "" for name in full}
            elif isinstance(inner, ast.Import):
                found |= {alias.name for alias in inner.names}
    here = module_name(path)
    own = {name for name in found if path.name == "__init__.py" and name.startswith(f"{here}.")}
    return found & modules - own - {here}


def test_modules_import_each_other_in_no_circle() -> None:
    """Imports of types count too, so that each module can be read after those that it uses.

    One is left out: a table's methods are the functions that open tables.
    """
    paths = {module_name(path): path for path in MODULES}
    graph = {name: module_imports(path, paths.keys()) for name, path in paths.items()}
    graph["puffin_fast.tables.opening"].remove("puffin_fast.tables.table")
    assert "puffin_fast.parquet.column_layout" in graph["puffin_fast.parquet.footer"]
    TopologicalSorter(graph).prepare()  # a CycleError names the modules


def test_no_folder_imports_the_private_modules_of_another() -> None:
    for path in MODULES:
        here = path.relative_to(PACKAGE).parts[:-1]
        for target in own_targets(path):
            folders = tuple(target.split(".")[1:])
            for depth, part in enumerate(folders):
                if part.startswith("_") and depth > 0:
                    assert folders[:depth] == here[:depth], f"{identify(path)} imports {target}"


def test_no_two_files_of_a_folder_differ_only_by_an_underscore() -> None:
    for folder in {path.parent for path in MODULES}:
        names = [path.stem.strip("_") for path in folder.iterdir() if path.suffix in (".py", ".pyx", "")]
        names = [name for name in names if name not in ("init", "pycache")]
        assert len(names) == len(set(names)), f"{folder}: {sorted(names)}"


def test_the_package_itself_lends_only_its_version() -> None:
    for path in MODULES:
        for module, name in imports(path):
            if module == "puffin_fast":
                assert name in LAYERS or name == "__version__", (
                    f"{identify(path)}: import {name} from where it lives"
                )


def test_each_foreign_package_has_its_places() -> None:
    for path in MODULES:
        here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for module, _ in imports(path):
            allowed = FOREIGN.get(module.split(".")[0])
            assert allowed is None or here in allowed, f"{identify(path)} imports {module}"


def test_private_parts_of_pyiceberg_are_touched_in_one_place() -> None:
    for path in MODULES:
        if identify(path).startswith(PRIVATE_MODULES):
            continue
        for module, name in imports(path):
            if module.split(".")[0] == "pyiceberg":
                assert not re.search(r"(^|\.)_(?!_)", f"{module}.{name}"), (
                    f"{identify(path)}: {module}.{name}"
                )


def test_kernels_know_bytes_and_integers_only() -> None:
    for path in [*PACKAGE.glob("_kernels/**/*.pyx"), *PACKAGE.glob("_kernels/**/*.pxd")]:
        for line in path.read_text().splitlines():
            found = re.match(r"\s*(?:from|cimport|import)\s+([\w.]+)", line)
            if found and found[1].startswith("puffin_fast"):
                assert package_of(found[1]) in ("_kernels", "errors"), f"{path.name}: {line.strip()}"
            assert not re.match(r"\s*(?:from|cimport|import)\s+(numpy|pyarrow)", line), f"{path.name}: {line}"


def test_every_module_is_in_a_layer() -> None:
    found = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES} - {"__init__"}
    assert found <= set(LAYERS)


def test_only_public_modules_list_their_names() -> None:
    for path in MODULES:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        names = {
            target.id
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        is_codec = parts[0] == "dv" and not parts[-1].startswith("_")
        lends = path.name == "__init__.py" and any(module != "__future__" for module, _ in imports(path))
        is_public = "/".join(parts) in PUBLIC
        assert ("__all__" in names) == (is_codec or lends or is_public), identify(path)


def test_modules_named_by_strings_exist() -> None:
    """Spark's executors import modules by name: no import statement would find a wrong one."""
    for path in MODULES:
        for name in re.findall(r'"puffin_fast\.((?:spark|iceberg)[\w.]*)"', path.read_text()):
            place = PACKAGE.joinpath(*name.split("."))
            assert place.is_dir() or place.with_suffix(".py").exists(), (
                f"{identify(path)}: puffin_fast.{name}"
            )
