"""Keys of given rows that several rows of a table have: an upsert would replace all of them by one row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError

OnDuplicateKeys = Literal["refuse", "replace"]


def refuses_duplicates(duplicate_keys: object) -> bool:
    """Returns whether an upsert with this argument `duplicate_keys` refuses such keys.

    Raises:
        InvalidInputError: the argument is neither "refuse" nor "replace".
    """
    if not isinstance(duplicate_keys, str) or duplicate_keys not in ("refuse", "replace"):
        raise InvalidInputError(
            f"duplicate_keys: expected 'refuse' or 'replace', found {shown_argument(duplicate_keys)}"
        )
    return duplicate_keys == "refuse"


@dataclass(frozen=True)
class DuplicateKeys:
    """How many keys several rows have that one given row would replace.

    Attributes:
        n_keys: number of these keys.
        n_rows: number of the rows that have them.
        most: number of the rows of one key, at most.
    """

    n_keys: int = 0
    n_rows: int = 0
    most: int = 0

    @classmethod
    def of(cls, n_rows: npt.NDArray[np.int64]) -> DuplicateKeys:
        """Counts them, given the number of rows of each key that is replaced."""
        several = n_rows[n_rows > 1]
        return cls(len(several), int(several.sum()), int(several.max(initial=0)))

    def __add__(self, other: DuplicateKeys) -> DuplicateKeys:
        return DuplicateKeys(
            self.n_keys + other.n_keys, self.n_rows + other.n_rows, max(self.most, other.most)
        )

    def refuse(self, columns: Iterable[str]) -> None:
        """Refuses the upsert if there are such keys; the message has no values of rows.

        Args:
            columns: names of the key columns.

        Raises:
            InvalidInputError: there are some.
        """
        if self.n_keys:
            raise InvalidInputError(
                f"join_cols: expected columns whose values are unique in the table, found {', '.join(columns)}: "
                f"{self.n_keys} of the given keys have several rows there, {self.n_rows} in all and up to "
                f"{self.most} for one key; duplicate_keys='replace' replaces all rows of a key by the given row"
            )
