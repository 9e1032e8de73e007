"""Makes pypaimon's scans read deletion vectors with this package; can be undone."""

from __future__ import annotations

from puffin_fast.acceleration import Acceleration, Patches
from puffin_fast.paimon.compat import check_version, patches

_PATCHES = Patches("pypaimon", patches)


def accelerate() -> Acceleration:
    """Makes pypaimon's own scans read deletion vectors through this package.

    It applies to this process. Vectors of version 2 (`deletion-vectors.bitmap64`), which pypaimon does not read, work;
    batches are filtered by masks and not row by row; checksums and cardinalities are checked.

        with puffin_fast.paimon.accelerate():
            table.new_read_builder().new_read().to_arrow(splits)

    Calls may be nested, and made from several threads. The acceleration ends with the last `undo`.

    Returns:
        The acceleration, which can be undone.

    Raises:
        MissingExtraError: pypaimon is not installed.
        UnsupportedError: this version of pypaimon is not supported; nothing is changed.

    Examples:
        >>> with pf.paimon.accelerate():
        ...     read = table.new_read_builder()
        ...     rows = read.new_read().to_arrow(read.new_scan().plan().splits())
        >>> rows.num_rows
        100
    """
    check_version()
    return _PATCHES.begin()
