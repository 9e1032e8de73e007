"""What the site has beside the pages of ``docs``: other documents, figures, and tutorials with their outputs."""

from __future__ import annotations

import base64
import hashlib
import importlib
import inspect
import os
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
ADDED = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "benchmarks/results/*.*")
EXECUTED = ROOT / "build" / "notebooks"
"""Notebooks that were executed before: only pages that changed are executed again, until `make clean`."""

UNSEARCHED = ("benchmarks/results/README.md",)
"""Documents for those who work on this package: the search does not find them."""

RANKED = {"tables.md": 3, "delta.md": 3, "faq.md": 0.3}
"""Factors of pages in the search: guides come before the titles of questions that have the same words."""


@cache
def executed(tutorial: Path) -> nbformat.NotebookNode:
    """A tutorial as a notebook with its outputs; a picture that a cell writes is shown below the cell."""
    text = tutorial.read_text()
    kept = EXECUTED / f"{tutorial.stem}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.ipynb"
    if kept.exists():
        return nbformat.read(kept, as_version=4)
    notebook = jupytext.reads(text, fmt="md")
    os.environ["PUFFIN_FAST_PROGRESS"] = "0"
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources)
        client.execute(stderr=subprocess.DEVNULL)  # Spark's log
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [
                    output
                    for output in cell.outputs
                    if output.output_type == "stream" and output.name == "stdout"
                ]
                for output in cell.outputs:  # the folder of the reader is another one
                    output.text = output.text.replace(f"{folder}/", "")
                for name in re.findall(r'\.picture\("([\w-]+\.png)"', cell.source):
                    data = {"image/png": base64.b64encode((Path(folder) / name).read_bytes()).decode()}
                    cell.outputs.append(nbformat.v4.new_output("display_data", data))
    EXECUTED.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, kept)
    return notebook


def portable(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A copy for readers who have only the notebook: links to pages and pictures of the site are their texts."""
    copy = nbformat.from_dict(notebook)
    copy.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for cell in copy.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"!?\[([^]]+)\]\((?!https?:)[^)]+\)", r"*\1*", cell.source)
    return copy


def with_outputs(notebook: nbformat.NotebookNode) -> str:
    """A notebook as the text of a page."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            if output.output_type == "stream":
                parts.append(f"``` {{ .text .output }}\n{output.text.rstrip()}\n```")
            else:
                parts.append(f"![what the code draws](data:image/png;base64,{output.data['image/png']})")
    return "\n\n".join(parts) + "\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Removes the links to edit a page if the address of the repository is not known."""
    if not config.repo_url:
        config.edit_uri = None
        config.theme["features"].remove("content.action.edit")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for pattern in ADDED:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        content = nbformat.writes(portable(executed(path)))
        files.append(File.generated(config, f"tutorials/{path.stem}.ipynb", content=content))
    return files


def resolved(name: str) -> str:
    """The path of the module that defines a public name (``pf.iceberg.scan``), which mkdocstrings reads."""
    value: Any = importlib.import_module("puffin_fast")
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    value = inspect.unwrap(value)  # a module or package may have the name of the function that it exports
    return f"{value.__module__}.{value.__qualname__}"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    name = page.file.src_uri
    if name in UNSEARCHED:
        page.meta["search"] = {"exclude": True}
    elif name in RANKED:
        page.meta["search"] = {"boost": RANKED[name]}
    if name.startswith("tutorials/"):
        text = with_outputs(executed(ROOT / "docs" / name))
        return f"{text}\n[Download this page as a notebook with its outputs]({Path(name).stem}.ipynb)\n"
    if "/" in name:
        return re.sub(r"(?<=^::: )pf\.[\w.]+", lambda found: resolved(found[0]), markdown, flags=re.MULTILINE)
    # in the repository the pages are in docs/, on the site beside the added documents
    return re.sub(r"\]\((?:docs|\.\.)/(?!\.\.)", "](", markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links of the pages that docstrings name by their path in the repository (``docs/filters.md#null``)."""

    def link(found: re.Match[str]) -> str:
        target = files.get_file_from_path(found[1])
        if target is None or target.page is None:
            return found[0]
        return f'<a href="{target.url_relative_to(page.file)}{found[2] or ""}">{target.page.title}</a>'

    return re.sub(r"\bdocs/([a-z-]+\.md)(#[a-z-]+)?", link, html)
