"""How many bytes of a column chunk are read at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from puffin_fast.parquet import column_pages


@pytest.fixture(scope="module", params=[1, 1 << 20], ids=["read by pages", "read at once"])
def least_in_pages(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_pages, "LEAST_IN_PAGES", request.param)
        yield
