"""Adds the documents at the top of the repository and the benchmark results to the site, and adapts their links."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ADDED = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "benchmarks/results/*.*")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for pattern in ADDED:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """In the repository the pages lie in ``docs/``, on the site beside the added documents."""
    return re.sub(r"\]\((?:docs|\.\.)/(?!\.\.)", "](", markdown) if "/" not in page.file.src_uri else markdown
