"""Replaces parts of PyIceberg: its scans load deletion vectors through this package, its verbs write version 3.

It can be undone.
"""

from __future__ import annotations

from contextlib import ExitStack

import pyiceberg

from puffin_fast._pyiceberg.v3_types import V3_TYPES
from puffin_fast._pyiceberg.versions import KNOWN_VERSIONS
from puffin_fast.acceleration import Acceleration, Patches
from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.compat.table_metadata import begin_v3_writes
from puffin_fast.iceberg.patches.pyiceberg_writes import WRITES
from puffin_fast.iceberg.scans.pyiceberg_scans import PATCHES

_PATCHES = Patches(f"pyiceberg {pyiceberg.__version__}", lambda: (*PATCHES, *WRITES))


def accelerate() -> Acceleration:
    """Makes PyIceberg's own scans load deletion vectors through this package, and its verbs write tables of version 3.

    It applies to this process. The scans are ``table.scan()`` in all its forms (`to_arrow`, `to_arrow_batch_reader`,
    `to_pandas`, `to_polars`, `to_duckdb`, `count`), and Polars' ``scan_iceberg`` where it loads deletion vectors
    through PyIceberg. They are faster, and apply only the vector that the manifest entry references, not superseded
    ones in the same Puffin file. Plans made before the call should be made again.
    ``table.append``, ``table.add_files``, `delete`, `overwrite`, `upsert`, `dynamic_partition_overwrite` and
    transactions of these work on tables of format version 3, which PyIceberg alone refuses ("Cannot write manifest for
    table version: 3"). Files that are added stay where they are, and are never removed if nothing is committed.
    Arguments and results are PyIceberg's; the commit is this package's: one snapshot for a transaction, with
    deletion vectors. A transaction may change metadata before or after rows: the commit has both. It may upgrade the
    table to version 3, or create it.
    Catalogs load tables that PyIceberg alone refuses, as `load_table` does. ``catalog.create_table`` with the property
    ``format-version`` of 3 creates such a table.
    PyIceberg still raises for features that it does not support, such as equality deletes;
    `puffin_fast.scan` reads those.

        puffin_fast.iceberg.accelerate()

        with puffin_fast.iceberg.accelerate():
            table.scan().to_arrow()

    Calls may be nested, and made from several threads. The acceleration ends with the last `undo`.

    Returns:
        The acceleration, which can be undone.

    Raises:
        UnsupportedError: this version of PyIceberg is not supported; nothing is changed.

    Examples:
        >>> with pf.iceberg.accelerate():
        ...     table.append(pa.table({"id": [100], "customer": [1], "price": [9.5]}))
        >>> pf.scan(table).count()
        101
    """
    version = pyiceberg.__version__
    if ".".join(version.split(".")[:2]) not in KNOWN_VERSIONS:
        raise UnsupportedError(
            f"pyiceberg {version}: expected {' or '.join(f'{known}.x' for known in KNOWN_VERSIONS)}; "
            "accelerate() replaces parts of it that change between versions"
        )
    with ExitStack() as begun:
        for patches in (V3_TYPES, _PATCHES):
            begun.callback(patches.begin().undo)
        begun.callback(begin_v3_writes())
        active = begun.pop_all()
    return Acceleration(f"PyIceberg {version}", lambda _: active.close())
