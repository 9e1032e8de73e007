"""The lanes have all tests, and name what exists."""

from __future__ import annotations

import re
from pathlib import Path

from tests import lanes

ROOT = Path(__file__).parents[2]


def exists(name: str) -> bool:
    """Whether there is a folder, a file, or a test function of a file."""
    file, _, function = name.partition("::")
    path = ROOT / file
    return path.exists() and (
        not function
        or re.search(rf"^def {function}\(", path.read_text(encoding="utf-8"), re.MULTILINE) is not None
    )


def test_lanes_name_what_exists() -> None:
    names = [*lanes.CHECK, *lanes.DEEP_NAMES]
    assert [name for name in names if not exists(name)] == []
    assert len(lanes.DEEP_NAMES) == sum(len(entries) for entries in lanes.DEEP.values()), "one is named twice"


def test_ci_runs_each_group() -> None:
    steps = re.findall(r'^    "deep (\w+) group (\w+)"$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert sorted(steps) == sorted((group, group) for group in lanes.DEEP)


def test_the_closest_name_decides_and_first_cases_stay() -> None:
    names = ("tests", "tests/spark", "tests/spark/test_laws.py", "tests/spark/test_laws.py::test_on_connect")
    assert lanes.group_of(lanes.Case(names, 0)) == "spark"
    assert lanes.group_of(lanes.Case(names[:3], 0)) is None
    assert lanes.group_of(lanes.Case(names[:3], 1)) == "spark"
    assert lanes.group_of(lanes.Case(names[:1], 1)) is None
    (entry,) = (
        entry for entries in lanes.DEEP.values() for entry in entries if entry.endswith("_a_list[%4]")
    )
    left = [lanes.group_of(lanes.Case((entry.partition("[")[0],), number)) for number in range(9)]
    assert [group is None for group in left] == [number in (0, 4, 8) for number in range(9)]
