"""The kernels that read foreign Parquet: every truncation and many changed bytes of small footers and pages."""

from __future__ import annotations

import pytest

from tests.fuzz import parquet_targets
from tests.fuzz.parquet_targets import chunks, footer_of, parquet_footer, parquet_pages

FOOTERS = [footer_of(file) for file in parquet_targets.files()]
BYTES = (0, 1, 0x7F, 0x80, 0xFF)


def damaged(data: bytes, step: int) -> list[bytes]:
    """All truncations, and copies in which every `step`-th byte is another one."""
    found = [data[:at] for at in range(len(data))]
    for at in range(0, len(data), step):
        found += [
            data[:at] + bytes([byte]) + data[at + 1 :] for byte in {*BYTES, data[at] ^ 1, data[at] ^ 0x10}
        ]
    return found


@pytest.mark.parametrize("footer", FOOTERS, ids=range(len(FOOTERS)))
def test_a_footer_that_passes_the_check_is_no_danger_to_pyarrow(footer: bytes) -> None:
    for data in [footer, *damaged(footer, 3)]:
        parquet_footer(data)


@pytest.mark.parametrize("kind", range(len(chunks())))
def test_damaged_pages_are_decoded_or_refused(kind: int) -> None:
    chunk = chunks()[kind].data
    for data in [chunk, *damaged(chunk, 1)]:
        parquet_pages(bytes([kind]) + data)
