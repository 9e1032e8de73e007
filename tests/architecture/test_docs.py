"""The Python blocks of the README and of the site's pages run, twice in one folder; all examples of docstrings hold."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from docs.generated import generate
from tests.architecture.examples import run_examples
from tests.architecture.pages import MODULES, ROOT, blocks, run_blocks
from tests.kit.cases import each

NAVIGATION = [
    ROOT / "docs" / name
    for name in re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *filter(Path.exists, NAVIGATION)]
"""The pages in the order in which a reader follows them."""


NEEDS = {"paimon": [pytest.mark.pypaimon]}
"""By the name of a page the marks of its test."""

ELSEWHERE = {"spark-job", "raw-to-clean", "spark", "arrow-udfs", "catalogs"}
"""Pages that are run where there is a session of Spark (tests/spark), and a fake of AWS (test_pages.py)."""

RUN = [
    pytest.param(document, id=document.relative_to(ROOT).as_posix(), marks=NEEDS.get(document.stem, ()))
    for document in DOCUMENTS
    if blocks(document) and document.stem not in ELSEWHERE
]


@pytest.fixture(scope="module")
def reader_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one folder in which a reader follows all pages."""
    return tmp_path_factory.mktemp("reader")


@pytest.mark.parametrize("time", ["first", "again"])
@pytest.mark.parametrize("document", RUN)
def test_python_blocks_run(
    document: Path, time: str, reader_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(reader_folder)
    run_blocks(document)


@each("document", DOCUMENTS, ids=lambda path: path.name)
def test_lines_of_code_fit_the_column_of_the_site(document: Path) -> None:
    code = re.findall(r"^```(?:python|sh)\n(.*?)^```", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in "".join(code).splitlines() if len(line) > 79] == []


def test_every_page_is_in_the_navigation() -> None:
    assert set((ROOT / "docs").rglob("*.md")) <= set(NAVIGATION)


def test_generated_parts_are_those_of_the_data() -> None:
    for path, text in generate().items():
        assert path.read_text() == text, f"{path}: run python -m docs.generated"


EXAMPLES = [
    pytest.param(module, marks=[pytest.mark.pypaimon] if module.startswith("puffin_fast.paimon") else [])
    for module in MODULES
    if not module.startswith("puffin_fast.spark")  # where there is a session: tests/spark
]


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_of_docstrings_hold(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(module, tmp_path)


FIRST_PAGES = (
    "README.md",
    "docs/index.md",
    "docs/start.md",
    "docs/delta.md",
    "docs/tutorials/delta-without-spark.md",
)


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_the_first_examples_need_only_what_their_page_installs(page: str) -> None:
    text = (ROOT / page).read_text()
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE))
    assert code
    for package, use in (("pandas", r"\.to_pandas\(|pandas"), ("polars", r"\.to_polars\(|polars")):
        assert not re.search(use, code) or f"pip install {package}" in text, package


def test_contributing_names_folders_that_exist() -> None:
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    folders = re.findall(r"folders of `(\w+)/`[^:]*: ([^.]*)\.|Those of `(\w+)/`: ([^.]*)\.", text)
    named = {(a or c): set(re.findall(r"`(\w+)`", b or d)) for a, b, c, d in folders}
    assert {*named} == {"rows", "iceberg", "delta", "spark"}
    for package, names in named.items():
        there = {path.parent.name for path in (ROOT / "puffin_fast" / package).glob("*/__init__.py")}
        assert names == there, package


PUBLIC = ["", "iceberg", "delta", "paimon", "lance", "spark", "arrow", "dv"]
PUBLIC += [f"dv.{codec}" for codec in ("iceberg", "delta", "paimon", "lance", "mumbling")]


def test_every_public_function_has_an_example() -> None:
    for part in PUBLIC:
        module = importlib.import_module(f"puffin_fast.{part}".rstrip("."))
        functions = {
            name: value for name in module.__all__ if inspect.isfunction(value := getattr(module, name))
        }
        missing = [name for name, value in functions.items() if ">>> " not in (value.__doc__ or "")]
        assert missing == [], f"{part}: expected an example in each docstring"


def test_the_reference_shows_functions_not_packages_of_their_name() -> None:
    for package in ("jupytext", "nbclient"):
        pytest.importorskip(package)
    from docs.hooks import resolved

    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        for name in re.findall(r"^::: (pf\.\S+)", page.read_text(), flags=re.MULTILINE):
            with pytest.raises(ImportError):
                importlib.import_module(resolved(name))


@each("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_files_that_exist(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


@each("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_targets_that_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"`make ([a-z0-9-]+)", document.read_text())) <= targets
