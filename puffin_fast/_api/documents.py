"""Dataclasses that are made from the values of a configuration file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any, TypeVar

from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError

Made = TypeVar("Made")

MOST_DAYS = 100_000


def of_document(kind: type[Made], values: Mapping[str, Any], *, days: Collection[str]) -> Made:
    """Makes a dataclass from the values of its fields.

    Args:
        kind: the dataclass.
        values: the values of fields by their names; those that are left out have their defaults.
        days: the fields that are ages: numbers of days, which become a `timedelta`.

    Raises:
        InvalidInputError: an unknown name, or an age that is not a number of days.
    """
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if unknown := values.keys() - known:
        raise InvalidInputError(f"policy: no {min(unknown)}: expected some of {', '.join(sorted(known))}")
    given = dict(values)
    for name in set(days) & given.keys():
        age = given[name]
        if isinstance(age, bool) or not isinstance(age, int | float) or not 0 <= age < MOST_DAYS:
            raise InvalidInputError(f"{name}: expected a number of days, found {shown_argument(age)}")
        given[name] = timedelta(days=age)
    return kind(**given)
