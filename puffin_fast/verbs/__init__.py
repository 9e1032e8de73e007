"""The verbs that change rows, each written once: they use a table of any format through an attempt.

An action (`Delete`, `Upsert`, …) runs on an attempt: one try of a commit on one head. A transaction is several actions
on one attempt, a single verb is one.
"""

from __future__ import annotations
