"""One test of many cases fails if one case does, and names all that do."""

from __future__ import annotations

import inspect

import pytest

from tests.kit.cases import each


def test_all_cases_run_and_each_that_fails_is_named() -> None:
    seen = []

    @each("a, b", [(1, "x"), (2, "y"), (3, "z")], ids=str)
    def law(a: int, tmp_path: str, b: str) -> None:
        seen.append((a, tmp_path, b))
        if a == 1:
            pytest.fail("no")
        assert a < 3, "too large"

    assert list(inspect.signature(law, follow_wrapped=True).parameters) == ["tmp_path"]
    with pytest.raises(ExceptionGroup, match="2 of 3 cases") as caught:
        law(tmp_path="p")  # type: ignore[call-arg]
    assert seen == [(1, "p", "x"), (2, "p", "y"), (3, "p", "z")]
    first, second = caught.value.exceptions
    assert (first.__notes__, str(first)) == (["case: 1-x"], "no")
    assert (second.__notes__, str(second).split("\n")[0]) == (["case: 3-z"], "too large")


def test_a_list_of_ids_names_the_cases_in_turn() -> None:
    @each("a", [3, 0], ids=["three", "none"])
    def law(a: int) -> None:
        assert a

    with pytest.raises(ExceptionGroup) as caught:
        law()  # type: ignore[call-arg]
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: none"]]


def test_no_cases_are_refused() -> None:
    with pytest.raises(AssertionError, match="no cases of a"):
        each("a", [])
