"""The site: its pages fit wide and narrow windows, and their links to edit name the sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from mkdocs.config import load_config
from mkdocs.structure.files import get_files
from mkdocs.structure.pages import Page

from docs import hooks
from tests.screenshots import SITE, browser, overflows

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/example/puffin-fast"


@pytest.mark.slow
def test_no_page_and_no_code_is_wider_than_its_column() -> None:
    if browser() is None:
        pytest.skip("a browser is missing: apt-get install chromium")
    if not SITE.exists():
        pytest.skip("the site is missing: make docs")
    assert overflows(SITE) == {}


@pytest.mark.parametrize("repository", [REPOSITORY, None])
def test_links_to_edit_name_the_sources(repository: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PUFFIN_FAST_REPOSITORY", raising=False)
    if repository is not None:
        monkeypatch.setenv("PUFFIN_FAST_REPOSITORY", repository)
    config = hooks.on_config(load_config(str(ROOT / "mkdocs.yml")))
    assert ("content.action.edit" in config.theme["features"]) == (repository is not None)
    pages = [file for file in get_files(config) if file.src_uri.endswith(".md")]
    assert len(pages) > 40
    for file in pages:
        link = Page(None, file, config).edit_url
        if repository is None:
            assert link is None
        else:
            name = link.removeprefix(f"{repository}/edit/main/")
            assert (ROOT / name).is_file(), link
