"""The small column chunks of numbers and booleans of a row group, which one call of the kernel decodes.

A table of thousands of columns has few rows in each: an object for each column chunk takes longer than its values. They
are read whole. `column_pages` decodes larger ones, dictionaries of decimals in bytes, and what is not of the expected
form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast._kernels.parquet import pages
from puffin_fast.parquet.column_pages import number_array
from puffin_fast.parquet.footer import CODEC_NAMES
from puffin_fast.parquet.page_codecs import KERNEL_CODECS

if TYPE_CHECKING:
    from puffin_fast.parquet.column_layout import Layout
    from puffin_fast.parquet.column_pages import Rows
    from puffin_fast.parquet.footer import Footer

_KERNEL_CODECS = np.array([KERNEL_CODECS.get(name, pages.OTHER) for name in CODEC_NAMES])


class SmallChunks(NamedTuple):
    """Small column chunks of a row group, in the order of the file.

    Attributes:
        columns: the name of the column of each, and how it is decoded.
        starts, stops: where they are in the file.
        words: as `pages.read_chunks` takes them, for the bytes of the whole file.
    """

    columns: list[tuple[str, Layout]]
    starts: list[int]
    stops: list[int]
    words: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls, footer: Footer, group: int, names: Sequence[str], most_bytes: int, file_bytes: int
    ) -> SmallChunks:
        """Finds them.

        Args:
            footer: the footer of the file, whose column chunks agree with the schema.
            group: the number of the row group.
            names: the columns.
            most_bytes: each has fewer bytes.
            file_bytes: the size of the file; column chunks that end after it are left out.
        """
        numbers = footer.layout.numbers(names)
        chunks = footer.chunk_words(group)[numbers.leaves]
        codec, encodings, n_values, raw_bytes, n_bytes, data, dictionary, *_ = chunks.T
        start = np.where(dictionary < 0, data, np.minimum(data, dictionary))
        is_known = (codec >= 0) & (codec < len(_KERNEL_CODECS)) & (encodings & ~numbers.encodings == 0)
        is_small = (n_bytes > 0) & (n_bytes < most_bytes) & (n_values == footer.group_rows[group])
        is_inside = (start >= 4) & (start <= file_bytes - n_bytes)
        is_numbers = (dictionary < 0) | (numbers.forms[:, 2] != pages.BIG_ENDIAN_TO_INT128)
        (found,) = np.nonzero(is_known & is_small & is_inside & is_numbers)
        found = found[_KERNEL_CODECS[codec[found]] != pages.OTHER]
        found = found[np.argsort(start[found], kind="stable")]
        places = start[found], n_bytes[found], raw_bytes[found]
        words = np.column_stack([*places, numbers.forms[found], _KERNEL_CODECS[codec[found]]])
        columns = [numbers.columns[at] for at in found.tolist()]
        return cls(columns, places[0].tolist(), (places[0] + places[1]).tolist(), words)

    def read(
        self, first: int, after: int, begin: int, data: Any, n_rows: int, rows: Rows | None
    ) -> Iterator[tuple[str, pa.Array]]:
        """Yields the columns of neighboring ones that are of the expected form.

        Args:
            first, after: the indexes of the first one and after the last one.
            begin, data: where their bytes begin in the file, and they.
            n_rows: number of rows of the row group.
            rows: the wanted ones; None: all.
        """
        count, columns, words = (
            n_rows if rows is None else len(rows),
            self.columns[first:after],
            self.words[first:after],
        )
        words[:, 0] -= begin
        cells = [pa.allocate_buffer(count * layout.width) for _, layout in columns]
        levels = [np.empty(count, np.uint8) if layout.needs_levels else None for _, layout in columns]
        validity = pages.read_chunks(data, words, n_rows, rows, cells, levels)
        for (name, layout), *found in zip(columns, cells, validity, levels, strict=True):
            if found[1] is not False:
                yield name, number_array(layout, count, *found)
