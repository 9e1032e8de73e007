"""What all public functions do around their work.

An unknown keyword names the right one, such as for one of deltalake, SQL or PyIceberg. Integers have a size. An
exception from outside comes out as it is, not as the error of the code that it came in. An error in the caller's
arguments shows the caller's line, without the frames and causes inside of the package.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import wraps
from itertools import zip_longest
from typing import Any, TypeVar

from puffin_fast._process.interrupt import interruptible
from puffin_fast.errors import InvalidInputError, NotFoundError

MOST_BITS = 1000
"""Of an integer argument: floats have no larger ones, and Python does not show those of thousands of digits."""

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

_OTHER_NAMES = {
    "row_filter": (
        "where",
        "predicate",
        "filter",
        "filters",
        "condition",
        "delete_filter",
        "overwrite_filter",
        "expr",
        "query",
    ),
    "join_cols": (
        "on",
        "by",
        "key",
        "key_columns",
        "keys",
        "join_columns",
        "merge_keys",
        "predicate",
        "left_on",
        "right_on",
        "primary_key",
        "unique_key",
    ),
    "data": ("df", "rows", "source", "frame", "table_data", "new_data"),
    "values": ("set", "updates", "assignments", "new_values"),
    "selected_fields": ("columns", "select", "fields"),
    "as_of": ("timestamp", "as_of_timestamp", "timestamp_as_of", "timestampAsOf", "time"),
    "version": ("version_as_of", "versionAsOf"),
    "snapshot_id": ("snapshot", "version", "version_as_of", "versionAsOf"),
    "threads": ("max_workers", "num_threads", "n_threads", "parallelism"),
    "workers": ("executor", "pool", "client"),
    "partition_spec": ("partition_by", "partitioning", "partitions"),
    "partition_columns": ("partition_by", "partitioning", "partitions", "partition_cols"),
    "retain_last": ("min_snapshots", "min_snapshots_to_keep", "keep", "keep_last", "num_snapshots"),
    "sort_by": ("order_by", "sort_order", "sort_columns", "sort"),
    "target_file_size": ("target_size", "target_size_bytes", "file_size", "target_file_size_bytes"),
    "properties": ("options", "table_properties", "configuration"),
    "snapshot_properties": ("commit_properties", "summary", "metadata"),
    "deletes": ("positions",),
    "filesystem": ("fs", "io"),
    "update_columns": ("columns", "update_cols"),
    "from_snapshot_id_exclusive": (
        "start",
        "start_snapshot_id",
        "from_snapshot_id",
        "start_version",
        "starting_version",
    ),
    "to_snapshot_id_inclusive": ("end", "end_snapshot_id", "to_snapshot_id", "end_version", "ending_version"),
    "from_timestamp_exclusive": ("start_timestamp", "starting_timestamp"),
    "to_timestamp_inclusive": ("end_timestamp", "ending_timestamp"),
    "dry_run": ("dryrun", "preview"),
    "older_than": ("retention_hours", "retention", "older_than_ms", "retain_hours"),
    "types": ("dtype", "dtypes", "schema_overrides"),
    "if_not_exists": ("exist_ok",),
    "sort_order": ("sort_by", "order_by"),
}
"""By the name of a parameter: names that other libraries have for it."""


_OTHER_FUNCTIONS = {
    "upsert": ("merge", "merge_into", "merge_insert"),
    "append": ("insert", "insert_into", "write", "write_table", "write_deltalake", "add"),
    "scan": (
        "read",
        "read_table",
        "query",
        "select",
        "count",
        "to_arrow",
        "to_pandas",
        "scan_iceberg",
        "scan_delta",
    ),
    "create_table": ("create",),
    "delete": ("remove", "delete_where", "delete_rows", "truncate"),
    "rewrite_data_files": ("optimize", "compact_files", "z_order", "rewrite"),
    "remove_orphan_files": ("vacuum", "remove_orphans"),
    "maintain": ("optimize_table",),
    "changes": ("load_cdf", "cdf", "table_changes", "diff"),
    "snapshot": ("load_table", "history", "version", "DeltaTable"),
    "load_table": ("table", "open", "open_table"),
    "PositionBitmap": ("BitMap", "BitMap64", "Roaring", "RoaringBitmap", "Bitmap", "DeletionVector"),
}
"""By the name of a function: names that other libraries have for it."""

_ELSEWHERE = {
    "puffin_fast.delta": {"create_table_if_not_exists": "pf.delta.create_table(…, if_not_exists=True)"},
    "puffin_fast.dv": dict.fromkeys(("encode", "decode"), "iceberg.{0}, delta.{0}, paimon.{0}, lance.{0}"),
    "puffin_fast.iceberg": {
        **dict.fromkeys(
            ("drop_table", "purge_table", "list_tables", "table_exists", "rename_table", "create_namespace"),
            "{0} of the catalog",
        ),
        **dict.fromkeys(("history", "snapshots", "schema", "refresh", "inspect", "refs"), "{0} of the table"),
        **dict.fromkeys(
            ("rollback", "create_branch", "create_tag", "manage_snapshots"), "manage_snapshots of the table"
        ),
        **dict.fromkeys(
            ("add_column", "update_schema", "drop_column", "rename_column"), "update_schema of the table"
        ),
        "create_table_if_not_exists": "pf.iceberg.create_table(…, if_not_exists=True)",
        "load_catalog": "pyiceberg.catalog.load_catalog",
    },
    "puffin_fast.lance": {
        **dict.fromkeys(
            ("delete", "update", "append", "scan", "merge_insert"), "methods of pylance's dataset"
        ),
        "delete_rows": "pf.lance.delete_positions",
    },
}
"""By module and name: where other libraries have it."""


def function_for(name: str) -> str | None:
    """The function that other libraries call by a name; None if it is not known."""
    return next((right for right, others in _OTHER_FUNCTIONS.items() if name in others), None)


def no_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that a module does not have, with the function that it may mean.

    Args:
        module: the module's name.
        name: what was looked up.
        known: the public names of the module; of another module as ``"iceberg.scan"``.
    """
    names = list(known)
    wanted = function_for(name) or name
    found = [other for other in names if other.rpartition(".")[2] == wanted]
    short = f"pf{module.removeprefix('puffin_fast')}"
    hint = f"; see {', '.join(f'{short}.{other}' for other in found)}" if found else ""
    if name in _ELSEWHERE.get(module, {}):
        hint = f"; see {_ELSEWHERE[module][name].format(name)}"
    # with the module, Python's traceback adds "Did you mean" for a typo
    return AttributeError(
        f"module {module!r} has no attribute {name!r}{hint}", name=name, obj=sys.modules.get(module)
    )


def named_attributes(instead: Mapping[str, str]) -> Callable[[Class], Class]:
    """Makes the `AttributeError` of the decorated class say what to write instead of a name of another library.

    Args:
        instead: by name what an error says.
    """

    def decorate(owner: Class) -> Class:
        def no_such(self: object, name: str) -> Any:
            if hasattr(owner, name):  # a property that raised an `AttributeError` of its own
                return object.__getattribute__(self, name)
            hint = f"; {instead[name]}" if name in instead else ""
            message = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(message, name=name, obj=self)

        setattr(owner, "__getattr__", no_such)  # noqa: B010  # type checkers would accept all names
        return owner

    return decorate


def named_methods(*names: str) -> Callable[[Class], Class]:
    """Replaces public methods of the decorated class by `named_keywords`."""

    def decorate(owner: Class) -> Class:
        for name in names:
            setattr(owner, name, named_keywords(getattr(owner, name), owner.__module__))
        return owner

    return decorate


def named_keywords(function: Function, module: str) -> Function:
    """Returns a function whose `TypeError` for an unknown keyword names the right one; it is called as the given one.

    Args:
        function: a public function with named parameters only.
        module: where it is public, for pickling.
    """
    parameters = inspect.signature(function).parameters
    known = parameters.keys()

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys() <= known:
            unknown = min(kwargs.keys() - known)
            raise TypeError(_message(function.__name__, unknown, kwargs[unknown], parameters))
        for name, value in (*zip(known, args, strict=False), *kwargs.items()):
            if type(value) is int and value.bit_length() > MOST_BITS:
                raise InvalidInputError(
                    f"{name}: expected an integer of 64 bits, found one of {value.bit_length():,}"
                )
        try:
            with interruptible():
                return function(*args, **kwargs)
        except (InvalidInputError, NotFoundError) as error:
            if isinstance(error.__cause__, OSError):
                raise
            raise error.with_traceback(None) from None

    call.__module__ = module
    return call  # type: ignore[return-value]


def public(function: Function) -> Function:
    """Decorates a function of `puffin_fast`, which its packages export too: `named_keywords`, once for all of them."""
    return named_keywords(function, "puffin_fast")


_NO_KEYWORD = {
    "mode": "append adds rows, overwrite replaces them",
    **dict.fromkeys(
        ("schema_mode", "merge_schema", "mergeSchema", "union_by_name"),
        "no verb adds columns: update_schema of an Iceberg table, ALTER TABLE of Spark",
    ),
    "sort_order": "a Delta table has no sort order: rewrite_data_files(sort_by=) sorts its rows",
    "lazy": "to_polars().lazy() is a LazyFrame",
    **dict.fromkeys(
        ("zorder", "z_order", "zorder_by", "z_order_by"), "there is no Z-order: sort_by= sorts the rows"
    ),
}
"""Keywords of other libraries that have no counterpart: what an error says."""


def right_name(
    unknown: str, known: Iterable[str], fits: Callable[[str], bool] = lambda name: True
) -> str | None:
    """The parameter that another library calls `unknown`, or one of nearly the same spelling; None if there is none.

    Args:
        unknown: the name that the caller wrote.
        known: the names of the parameters.
        fits: whether the caller's value can be one of a parameter of nearly the same spelling.

    Examples:
        >>> right_name("row_fitler", ["table", "row_filter"]), right_name("where", ["table", "row_filter"])
        ('row_filter', 'row_filter')
        >>> right_name("min_snapshots", ["snapshot_ids", "dry_run"])
    """
    names = list(known)
    same = [right for right in names if unknown in _OTHER_NAMES.get(right, ())]
    near = [right for right in names if _is_near(unknown, right) and fits(right)]
    return next(iter(same or near), None)


def _is_near(unknown: str, right: str) -> bool:
    """Whether a name is another one with a typo in one or two words; words of three letters (``min``) have none."""
    if unknown.replace("_", "").lower() == right.replace("_", "").lower():
        return True
    pairs = list(zip_longest(unknown.lower().split("_"), right.split("_"), fillvalue=""))
    wrong = [(a, b) for a, b in pairs if a != b]
    return len(wrong) <= 2 and all(
        a.rstrip("s") == b.rstrip("s") or (min(len(a), len(b)) > 3 and _has_one_typo(a, b)) for a, b in wrong
    )


def _has_one_typo(a: str, b: str) -> bool:
    """Whether one letter is missing, added or another one, or two neighbours are exchanged."""
    if len(a) > len(b):
        a, b = b, a
    at = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
    if len(a) != len(b):
        return len(b) - len(a) == 1 and a[at:] == b[at + 1 :]
    return a[at + 1 :] == b[at + 1 :] or (
        a[at : at + 2] == b[at : at + 2][::-1] and a[at + 2 :] == b[at + 2 :]
    )


_SCALARS: dict[type, frozenset[str]] = {
    bool: frozenset({"bool"}),
    int: frozenset({"int", "float"}),
    float: frozenset({"float"}),
    str: frozenset({"str"}),
    timedelta: frozenset({"timedelta"}),
    datetime: frozenset({"datetime"}),
}
"""By the type of a value: the types of parameters that accept it, as annotations write them."""

_OF_MANY = frozenset(
    {"Sequence", "Iterable", "Collection", "Mapping", "list", "tuple", "set", "frozenset", "dict"}
)
_OUTER = re.compile(r"\[[^\[\]]*\]")


def _accepts(annotation: object, value: object) -> bool:
    """Whether a parameter may accept a value; unknown types and values may."""
    text = str(annotation)
    while "[" in text and text != (outer := _OUTER.sub("", text)):
        text = outer
    kinds = {kind.strip().rpartition(".")[2] for kind in text.split("|")} - {"None"}
    expected = _SCALARS.get(type(value), frozenset())
    if not expected or kinds & expected:
        return True
    return not kinds <= _OF_MANY.union(*_SCALARS.values(), {"PathLike"})


def _message(name: str, unknown: str, value: object, parameters: Mapping[str, inspect.Parameter]) -> str:
    right = right_name(unknown, parameters, lambda near: _accepts(parameters[near].annotation, value))
    hint = _NO_KEYWORD.get(unknown) or f"it has {', '.join(parameters)}"
    if right:
        hint = f"write {right}="
    return f"{name}() got an unexpected keyword argument {unknown!r}; {hint}"
