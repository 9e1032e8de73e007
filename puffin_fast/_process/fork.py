"""Locks that are free in a forked child process."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager


def lock_across_fork(*, reentrant: bool = False) -> AbstractContextManager[bool]:
    """Makes a lock that is acquired during a fork, so that no other thread holds it in the child process.

    Args:
        reentrant: whether a thread may acquire it again.
    """
    lock = threading.RLock() if reentrant else threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
