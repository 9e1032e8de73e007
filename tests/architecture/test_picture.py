"""The drawing of the packages is that of their layers."""

from __future__ import annotations

from tests.architecture.picture import PICTURE, draw


def test_the_drawing_is_up_to_date() -> None:
    assert PICTURE.read_text() == draw(), "python -m tests.architecture.picture draws it again"
