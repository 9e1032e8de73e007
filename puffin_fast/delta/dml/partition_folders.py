"""The folders of the data files of partitioned tables, in Hive's form: ``month=2/day=__HIVE_DEFAULT_PARTITION__/``.

The partition of a file is in the log, and the protocol allows any path. Some readers (Polars) take it from the path.
Tables with column mapping have no such folders: their names in files are not those of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
"""The characters of values that Hive and Spark write as ``%`` and two hexadecimal digits."""
_ESCAPED_IN_NAMES = re.compile(r"[\x00-\x1f\x7f/=]")
"""Those of names: fewer, because Polars and deltalake decode values only."""


def partition_folder(partition: Mapping[str, str | None]) -> str:
    """Returns the folder of a partition below the table, with a trailing slash; empty without partition columns.

    Args:
        partition: the values of the partition columns in the form of the log.
    """
    return "".join(
        f"{_escaped(_ESCAPED_IN_NAMES, name)}={NULL if value is None else _escaped(_ESCAPED, value)}/"
        for name, value in partition.items()
    )


def _escaped(characters: re.Pattern[str], text: str) -> str:
    return characters.sub(lambda found: f"%{ord(found[0]):02X}", text)
