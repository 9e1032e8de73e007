"""The verbs that change rows, implemented once for tables of all formats.

An action (`Delete`, `Upsert`, …) runs on an attempt: one try to commit on one head. A transaction runs several actions
on one attempt, a single verb runs one.
"""

from __future__ import annotations
