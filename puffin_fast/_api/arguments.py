"""Checks of the arguments of public functions: each error names the argument, what is expected and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral

import numpy as np

from puffin_fast._text import MOST_SHOWN, shown_argument
from puffin_fast.errors import InvalidInputError


def check_integer(name: str, value: object, *, least: int | None = None, optional: bool = True) -> None:
    """Checks an argument that is an integer of at least `least`, or None if it is optional.

    Raises:
        InvalidInputError: the value is another one; a bool is not accepted.
    """
    if value is None and optional:
        return
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or (least is not None and value < least):  # type: ignore[operator]
        whole = "" if is_integer else "an integer" if least is None else "an integer of "
        wanted = whole if least is None else f"{whole}at least {least}"
        raise InvalidInputError(
            f"{name}: expected {wanted}{', or None' * optional}, found {shown_argument(value)}"
        )


def check_ids(name: str, values: object) -> list[int] | None:
    """Checks an argument that is an iterable of snapshot ids, or None, and returns it.

    Raises:
        InvalidInputError: it is not.
    """
    if values is None:
        return None
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{name}: expected ids of snapshots, found {shown_argument(values)}")
    ids = list(values)
    for snapshot_id in ids:
        check_integer(name, snapshot_id, optional=False)
    return ids


def check_share(name: str, value: object) -> None:
    """Checks an argument that is a number from 0 to 1.

    Raises:
        InvalidInputError: it is not.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InvalidInputError(f"{name}: expected a number from 0 to 1, found {shown_argument(value)}")


def check_flags(**flags: object) -> None:
    """Checks that arguments are True or False. (The string "false" would otherwise count as True.)

    Raises:
        InvalidInputError: an argument has another value.
    """
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise InvalidInputError(f"{name}: expected True or False, found {shown_argument(value)}")


def check_name(name: str, value: object, *, optional: bool = True) -> None:
    """Checks an argument that is a name, or None if it is optional.

    Raises:
        InvalidInputError: it is not a string, or blank, or has half of a surrogate pair.
    """
    if value is None and optional:
        return
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{name}: expected a string that is not empty, found {shown_argument(value)}")
    check_unicode(name, value)


def check_unicode(name: str, text: str) -> None:
    """Checks that UTF-8 has a text.

    Raises:
        InvalidInputError: it has half of a surrogate pair.
    """
    if not text.isascii() and text.encode(errors="ignore").decode() != text:
        raise InvalidInputError(
            f"{name}: expected text that UTF-8 has, found half of a surrogate pair in {shown_argument(text)}"
        )


def check_texts(name: str, values: object) -> tuple[str, ...]:
    """Checks an argument that is a sequence of names, and returns it.

    Raises:
        InvalidInputError: it is a single string or not a sequence, or an item is not a string.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        hint = f"; write [{values!r}]" if isinstance(values, str) and len(values) <= MOST_SHOWN else ""
        raise InvalidInputError(f"{name}: expected a sequence of names, found {shown_argument(values)}{hint}")
    found = tuple(values)
    for value in found:
        if not isinstance(value, str):
            raise InvalidInputError(
                f"{name}: expected a sequence of names, found {shown_argument(value)} in it"
            )
    return found


def check_table_name(name: object) -> str:
    """Checks the name of a table, ``"namespace.table"`` or its parts, and returns it as text.

    Raises:
        InvalidInputError: it is something else, or a part is blank.
    """
    parts = name.split(".") if isinstance(name, str) else name if isinstance(name, tuple | list) else ()
    if (
        len(parts) < 2
        or not all(isinstance(part, str) for part in parts)
        or not all(part.strip() for part in parts)
    ):
        raise InvalidInputError(f"name: expected 'namespace.table', found {shown_argument(name)}")
    return ".".join(parts)


def check_mapping(name: str, values: object) -> None:
    """Checks an argument that maps strings to strings, or None.

    Raises:
        InvalidInputError: it is not a mapping, or a name or value is not a string, or has half of a surrogate pair.
    """
    if not isinstance(values, Mapping | None):
        raise InvalidInputError(f"{name}: expected a mapping, found {type(values).__name__}")
    for key, value in (values or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            found = f"{shown_argument(key)}: {shown_argument(value)}"
            raise InvalidInputError(f"{name}: expected strings as names and values, found {found}")
        check_unicode(name, key)
        check_unicode(f"{name}[{key!r}]", value)
