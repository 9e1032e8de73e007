"""The built site fits wide and narrow windows."""

from __future__ import annotations

import pytest

from tests.screenshots import SITE, browser, overflows


@pytest.mark.slow
def test_no_page_and_no_code_is_wider_than_its_column() -> None:
    if browser() is None:
        pytest.skip("a browser is missing: apt-get install chromium")
    if not SITE.exists():
        pytest.skip("the site is missing: make docs")
    assert overflows(SITE) == {}
