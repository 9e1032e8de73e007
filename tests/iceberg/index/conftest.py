"""Fixtures of tests of key indexes: candidates narrow small data files, too."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from puffin_fast.iceberg.index import lookup
from puffin_fast.rows.files.reader import DataFiles


@pytest.fixture(autouse=True)
def every_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates narrow small data files, too."""
    monkeypatch.setattr(lookup, "ROWS_PER_CANDIDATE", 0)


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many data files were narrowed to candidates or left out, for each plan that used an index."""
    counts: list[int] = []
    run = lookup._Lookup.run

    def counted(self: lookup._Lookup, plan: Any) -> Any:
        found = run(self, plan)
        covered = {path for stored in self._segments for path in stored.segment.numbers}
        counts.append(
            len(covered.difference(task.data.file_path for task in found if task.candidates is None))
        )
        return found

    monkeypatch.setattr(lookup._Lookup, "run", counted)
    return counts


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The data files that are opened, and the places of their pages that are known."""
    found: list[tuple[str, Any]] = []
    inner = DataFiles.open

    def watched(self: DataFiles, *given: Any, **named: Any) -> Any:
        bound = signature(inner).bind(self, *given, **named)
        bound.apply_defaults()
        found.append((bound.arguments["entry"].file_path, bound.arguments["places"]))
        return inner(self, *given, **named)

    monkeypatch.setattr(DataFiles, "open", watched)
    return found
