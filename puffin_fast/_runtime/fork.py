"""Locks that a forked child finds free."""

from __future__ import annotations

import os
import threading

__all__ = ["lock_across_fork"]


def lock_across_fork() -> threading.Lock:
    """A lock that is taken while this process forks, so that no other thread holds its copy in the child."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
