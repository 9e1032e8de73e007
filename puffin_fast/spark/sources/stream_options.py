"""The options of the data source ``puffin_changes``.

=============================  ======================================================================================
option                         meaning
=============================  ======================================================================================
``path``                       path of a Delta table, as in ``load(path)``; ``storage.…`` are its storage options
``table``                      name of an Iceberg table, ``namespace.name``
``catalog``                    its catalog, by default PyIceberg's default; ``catalog.…`` are properties of the catalog,
                               such as ``catalog.uri``
``branch``                     the branch of an Iceberg table that is followed, by default main
``start``                      ``table``, by default: the first batch has all rows as inserts. ``latest``: changes from
                               now on. ``earliest``: all changes that the table still has
``from_snapshot_id_exclusive``, ``from_timestamp_exclusive``
                               instead of ``start``, as in the function `changes`
``maxSnapshotsPerTrigger``     the largest number of snapshots or versions of a batch; no limit by default
``poll_interval_s``            the table's metadata is requested at most once in this time, 1 second by default
``net``, ``updates``, ``join_cols``, ``row_filter``, ``selected_fields``, ``case_sensitive``
                               as in the functions `changes`; names are separated by commas
=============================  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from puffin_fast.errors import InvalidInputError

TABLE, LATEST, EARLIEST = "table", "latest", "earliest"
"""The values of `start`."""

FORMAT = "puffin_changes"

_BEGINNINGS = ("from_snapshot_id_exclusive", "from_timestamp_exclusive")
_OF_ICEBERG = ("catalog", "branch")
_OTHERS = (
    "path",
    "table",
    "start",
    "maxSnapshotsPerTrigger",
    "poll_interval_s",
    "net",
    "updates",
    "join_cols",
    "row_filter",
    "selected_fields",
    "case_sensitive",
)
NAMES = {name.lower(): name for name in (*_OTHERS, *_BEGINNINGS, *_OF_ICEBERG)}
"""The options by their names in lower case, as Spark passes them."""

_PREFIXES = ("catalog.", "storage.")


@dataclass(frozen=True)
class StreamOptions:
    """Checked options.

    Attributes:
        path, table, catalog, branch, start: as options.
        properties: the properties of the catalog, or the storage options.
        beginning: the argument of `changes` that is given instead of `start`.
        max_snapshots: the largest number of snapshots of a batch; None for no limit.
        poll_interval_s: seconds.
        scan: arguments of `changes`.
    """

    path: str | None
    table: str | None
    catalog: str | None
    branch: str | None
    start: str
    properties: Mapping[str, str]
    beginning: Mapping[str, int | str]
    max_snapshots: int | None
    poll_interval_s: float
    scan: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        """Checks options.

        Raises:
            InvalidInputError: an option is unknown, has a wrong value, or does not fit another one.
        """
        given: dict[str, str] = {}
        properties: dict[str, dict[str, str]] = {prefix: {} for prefix in _PREFIXES}
        for name, value in options.items():
            low = name.lower()
            prefix = next((one for one in _PREFIXES if low.startswith(one)), None)
            if prefix is not None:
                properties[prefix][name[len(prefix) :]] = value
            elif low in NAMES:
                given[NAMES[low]] = value
            else:
                raise _wrong(
                    f"option {name!r}: unknown; expected {', '.join(NAMES.values())}, catalog.… or storage.…"
                )
        is_delta = _check_table(given, properties)
        beginnings = {name: given[name] for name in _BEGINNINGS if name in given}
        if len(beginnings) + ("start" in given) > 1:
            both = [*beginnings, *(["start"] if "start" in given else [])]
            raise _wrong(f"options {' and '.join(both)}: expected one of them")
        start = given.get("start", TABLE).lower()
        if start not in (TABLE, LATEST, EARLIEST):
            raise _wrong(f"option 'start': expected table, latest or earliest, found {given['start']!r}")
        scan: dict[str, Any] = {
            name: _flag(name, given[name]) for name in ("net", "updates", "case_sensitive") if name in given
        }
        scan |= {
            name: [one.strip() for one in given[name].split(",")]
            for name in ("join_cols", "selected_fields")
            if name in given
        }
        if "row_filter" in given:
            scan["row_filter"] = given["row_filter"]
        most = given.get("maxSnapshotsPerTrigger")
        return cls(
            given.get("path"),
            given.get("table"),
            given.get("catalog"),
            given.get("branch"),
            start,
            properties["storage." if is_delta else "catalog."],
            {name: _number_or_text(name, value) for name, value in beginnings.items()},
            None if most is None else _whole("maxSnapshotsPerTrigger", most, least=1),
            _seconds(given.get("poll_interval_s", "1")),
            scan,
        )

    @property
    def name(self) -> str:
        """The name of the table in messages."""
        return self.path or self.table or ""


def _check_table(given: Mapping[str, str], properties: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether the table is a Delta table."""
    if ("path" in given) == ("table" in given):
        found = "both" if "path" in given else "neither"
        raise _wrong(
            "expected the path of a Delta table, as in load(path), or the options table and catalog of an Iceberg "
            f"table, found {found}"
        )
    is_delta = "path" in given
    wrong = [name for name in _OF_ICEBERG if is_delta and name in given]
    prefix = "catalog." if is_delta else "storage."
    wrong += [f"{prefix}{name}" for name in properties[prefix]]
    if wrong:
        raise _wrong(f"option {wrong[0]!r}: a table of {'Delta' if is_delta else 'Iceberg'} has none")
    return is_delta


def _wrong(message: str) -> InvalidInputError:
    return InvalidInputError(f"format {FORMAT!r}: {message}")


def _flag(name: str, value: str) -> bool:
    low = str(value).lower()
    if low not in ("true", "false"):
        raise _wrong(f"option {name!r}: expected true or false, found {value!r}")
    return low == "true"


def _whole(name: str, value: str, least: int = 0) -> int:
    text = str(value).strip()
    if not text.isdecimal() or int(text) < least:
        raise _wrong(f"option {name!r}: expected a whole number from {least} on, found {value!r}")
    return int(text)


def _seconds(value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise _wrong(f"option 'poll_interval_s': expected seconds, found {value!r}")
    return found


def _number_or_text(name: str, value: str) -> int | str:
    """Returns a snapshot id or version, or a time as milliseconds or text."""
    text = str(value).strip()
    if name == "from_snapshot_id_exclusive" or text.isdecimal():
        return _whole(name, text)
    return text
