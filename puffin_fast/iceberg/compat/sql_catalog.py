"""Transactions of SQL catalogs that PyIceberg leaves open, and locks of SQLite.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 roll nothing back.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def roll_back_returned_connections(catalog: Catalog) -> None:
    """Rolls back pooled connections of a SQL catalog that are still in a transaction.

    SQLite keeps a transaction open when COMMIT fails because others read or because the disk is full, and
    SQLAlchemy returns such a connection to its pool without a rollback. The connection would then keep its
    lock, and its next reader would see changes that were never committed.
    """
    engine = getattr(catalog, "engine", None)
    if engine is None:
        return
    from sqlalchemy import event

    for name in ("reset", "checkout"):
        if not event.contains(engine, name, _roll_back):
            event.listen(engine, name, _roll_back)


def _roll_back(connection: Any, *_: object) -> None:
    if getattr(connection, "in_transaction", False):
        connection.rollback()


def is_locked(error: BaseException) -> bool:
    """Returns whether SQLite stopped waiting for a lock. The statement was not executed then."""
    code: int | None = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
