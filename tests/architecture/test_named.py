"""What messages, help texts, public docstrings and pages name exists: options, commands, functions, pages."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import puffin_fast as pf
from puffin_fast.cli import main

ROOT = Path(__file__).parents[2]
PACKAGES = ("iceberg", "delta", "spark", "paimon", "lance", "arrow", "dv", "errors", "puffin")
MODULES: list[ModuleType] = [pf, *(importlib.import_module(f"puffin_fast.{name}") for name in PACKAGES)]
MODULES += [getattr(pf.dv, name) for name in pf.dv.__all__ if inspect.ismodule(getattr(pf.dv, name))]

OTHERS = (
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyiceberg.catalog",
    "pyiceberg.table",
    "deltalake",
)
"""Modules of other packages whose names docstrings use without the module."""

ALIASES = {"pa": "pyarrow", "pc": "pyarrow.compute", "ds": "pyarrow.dataset", "pl": "polars", "pd": "pandas"}

OF_OTHER_PROGRAMS = {"--query-timeout"}
"""Options that texts name, of programs other than this package's."""

PAGES_OF_SPECIFICATIONS = {"Encryption.md", "LogicalTypes.md", "VariantEncoding.md"}
CODE = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(?:\(\))?`(?!`)")


def texts() -> Iterator[tuple[str, str]]:
    """All texts of several words in the sources, with their places; values in them are left out."""
    for path in sorted((ROOT / "puffin_fast").rglob("*.py")):
        tree = ast.parse(path.read_text())
        joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        parts = {id(part) for node in joined for part in node.values}
        for node in ast.walk(tree):
            text = None
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                text = node.value
            if text is not None and " " in text:
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", text


def pages() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = re.sub(
            r"^::: .*|\(.*?\.md.*?\)", "", path.read_text(), flags=re.MULTILINE
        )  # mkdocs checks these
        yield str(path.relative_to(ROOT)), text


TEXTS, PAGES = list(texts()), list(pages())


@cache
def commands(command: click.Command = main) -> frozenset[tuple[str, click.Command]]:
    """All commands by the words that call them, without the name of the program."""
    found = {("", command)}
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            found |= {(f"{name} {rest}".strip(), one) for rest, one in commands(below)}
    return frozenset(found)


def test_options_exist() -> None:
    known = {"--help", "--version"} | OF_OTHER_PROGRAMS
    known |= {name for _, one in commands() for at in one.params for name in (*at.opts, *at.secondary_opts)}
    named = {
        (word, place) for place, text in TEXTS for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)
    }
    assert {(word, place) for word, place in named if word not in known} == set()


def test_commands_of_messages_and_pages_exist() -> None:
    first = {words.split(" ")[0] for words, _ in commands() if words}
    for place, text in TEXTS + PAGES:
        for word in re.findall(r"(?:`|^|\$ )puffin-fast ([a-z][a-z-]+)", text, flags=re.MULTILINE):
            assert word in first, place


def test_pages_exist() -> None:
    for place, text in TEXTS:
        for name in set(re.findall(r"[\w/-]+\.md\b", text)) - PAGES_OF_SPECIFICATIONS:
            assert (ROOT / name).exists(), f"{place}: {name}"


def test_functions_of_the_package_exist() -> None:
    """Names with a module, such as ``puffin_fast.iceberg.scan``, in texts, docstrings and pages."""
    named = {
        (place, name)
        for place, text in TEXTS + PAGES
        for name in re.findall(r"(?<![\w./-])(?:pf|puffin_fast)((?:\.[A-Za-z_]\w*)+)", text)
    }
    assert {(place, name) for place, name in named if not exists(pf, name[1:].split("."))} == set()


def test_functions_of_other_packages_exist() -> None:
    named = {
        (place, ALIASES.get(alias, alias), name)
        for place, text in TEXTS
        for alias, name in re.findall(
            r"(?<![\w.])(pa|pc|ds|pl|pd|pyarrow|polars)\.(\w+(?:\.\w+)*)(?=[(`])", text
        )
    }
    assert {one for one in named if not exists(importlib.import_module(one[1]), one[2].split("."))} == set()


def exists(owner: Any, names: list[str]) -> bool:
    """Whether an object has an attribute, a submodule or a field by its path of names."""
    for name in names:
        if inspect.isclass(owner) and name in members(owner):
            return True
        if inspect.ismodule(owner) and not hasattr(owner, name):
            try:
                importlib.import_module(f"{owner.__name__}.{name}")
            except ImportError:
                return False
        if not hasattr(owner, name):
            return False
        owner = getattr(owner, name)
    return True


@cache
def members(owner: type) -> frozenset[str]:
    fields = {field.name for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else set()
    named = {name for base in owner.__mro__ for name in getattr(base, "__annotations__", {})}
    if owner.__module__.startswith("puffin_fast"):
        named |= set(re.findall(r"self\.(\w+)\b.*=", inspect.getsource(owner)))
    return frozenset({*dir(owner), *fields, *named})


def documented() -> Iterator[tuple[str, ModuleType, Any, str]]:
    """The public objects with a docstring: where, in which module, the object, the docstring."""
    for module in MODULES:
        yield module.__name__, module, module, module.__doc__ or ""
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.ismodule(value) or not callable(value):
                continue
            yield f"{module.__name__}.{name}", module, value, value.__doc__ or ""
            for below in dir(value) if inspect.isclass(value) else ():
                found = inspect.getattr_static(value, below)
                found = getattr(found, "__func__", getattr(found, "fget", found))
                if not below.startswith("_") and str(getattr(found, "__module__", "")).startswith(
                    "puffin_fast"
                ):
                    yield f"{module.__name__}.{name}.{below}", module, found, found.__doc__ or ""


DOCUMENTED = list(documented())


@cache
def names_of(module: ModuleType) -> frozenset[str]:
    """What a docstring of a module may name: functions, classes, arguments, fields of results."""
    found = {*module.__all__, *pf.__all__, *dir(builtins)}
    for _, of, value, _ in DOCUMENTED:
        if of is module and callable(value):
            found |= parameters(value)
            if inspect.isclass(value):
                found |= members(value)
            for result in re.findall(r"\w+", str(getattr(value, "__annotations__", {}).get("return", ""))):
                kind = getattr(inspect.unwrap(value), "__globals__", {}).get(result)
                if inspect.isclass(kind) and kind.__module__.startswith("puffin_fast"):
                    found |= members(kind) | {result}
    return frozenset(found)


def parameters(value: Any) -> set[str]:
    try:
        return set(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return set()


def test_docstrings_name_what_is_public() -> None:
    unknown = set()
    for place, module, _, docstring in DOCUMENTED:
        for name in CODE.findall(docstring):
            first, *rest = name.split(".")
            if first in ("pf", "puffin_fast"):
                is_known = exists(pf, rest)
            elif not rest:
                is_known = first in names_of(module)
            else:
                is_known = exists(module, [first, *rest]) or exists(pf, [first, *rest])
            is_known = is_known or any(
                exists(importlib.import_module(other), [first, *rest]) for other in OTHERS
            )
            is_known = is_known or (
                first in ("pyarrow", "pyiceberg") and exists(importlib.import_module(first), rest)
            )
            if not is_known:
                unknown.add((place, name))
    assert unknown == set()


def test_errors_of_docstrings_exist() -> None:
    known = {*pf.errors.__all__, *dir(builtins)}
    unknown = set()
    for place, _, _, docstring in DOCUMENTED:
        raises = re.search(
            r"^ *Raises:\n(.*?)(?:\n *\n *\w+:\n|\Z)", docstring, flags=re.MULTILINE | re.DOTALL
        )
        for name in re.findall(r"\b[A-Z]\w+(?:Error|Warning)\b", raises[1]) if raises else ():
            if name not in known:
                unknown.add((place, name))
    assert unknown == set()
