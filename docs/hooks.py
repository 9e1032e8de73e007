"""What the site has beside the pages of ``docs``: other documents, benchmark results, each tutorial as a notebook."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ADDED = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "benchmarks/results/*.*")
CODE = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def notebook(markdown: str) -> str:
    """A page as a Jupyter notebook (nbformat 4.4): a code cell for each Python block."""
    cells = []
    for number, text in enumerate(CODE.split(markdown)):  # texts and blocks in turn
        if text.strip():
            cell = {"cell_type": "markdown", "metadata": {}, "source": text.strip()}
            code = {"cell_type": "code", "execution_count": None, "outputs": []}
            cells.append(cell | code if number % 2 else cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": 4, "metadata": {"kernelspec": kernel}, "cells": cells}, indent=1
    )


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for pattern in ADDED:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        name = f"tutorials/{path.stem}.ipynb"
        files.append(File.generated(config, name, content=notebook(path.read_text())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    name = page.file.src_uri
    if name.startswith("tutorials/"):
        return f"{markdown}\n[This page as a notebook]({Path(name).stem}.ipynb)\n"
    if "/" in name:
        return markdown
    # in the repository the pages are in docs/, on the site beside the added documents
    return re.sub(r"\]\((?:docs|\.\.)/(?!\.\.)", "](", markdown)
