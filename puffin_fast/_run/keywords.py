"""What all public functions do around their work.

An unknown keyword names the right one, such as for one of deltalake, SQL or PyIceberg. Integers have a size. An
exception from outside comes out as it is, not as the error of the code that it came in. An error in the caller's
arguments shows the caller's line, without the frames and causes inside of the package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from puffin_fast._run.interrupt import interruptible
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
    "join_cols": ("on", "by", "key", "key_columns", "keys", "join_columns", "merge_keys", "predicate"),
    "data": ("df", "rows", "source", "frame", "table_data", "new_data"),
    "values": ("set", "updates", "assignments", "new_values"),
    "selected_fields": ("columns", "select", "fields"),
    "as_of": ("timestamp", "as_of_timestamp", "time"),
    "snapshot_id": ("snapshot", "version"),
    "threads": ("max_workers", "num_threads", "n_threads", "parallelism"),
    "workers": ("executor", "pool", "client"),
    "partition_spec": ("partition_by", "partitioning", "partitions"),
    "properties": ("options", "table_properties", "configuration"),
    "snapshot_properties": ("commit_properties", "summary", "metadata"),
    "deletes": ("positions",),
    "filesystem": ("fs", "io"),
    "update_columns": ("columns", "update_cols"),
    "from_snapshot_id_exclusive": ("start", "start_snapshot_id", "from_snapshot_id", "start_version"),
    "to_snapshot_id_inclusive": ("end", "end_snapshot_id", "to_snapshot_id", "end_version"),
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
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)


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
    known = inspect.signature(function).parameters.keys()

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys() <= known:
            raise TypeError(_message(function.__name__, min(kwargs.keys() - known), known))
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


_NO_KEYWORD = {
    "mode": "append adds rows, overwrite replaces them",
    **dict.fromkeys(
        ("schema_mode", "merge_schema", "mergeSchema", "union_by_name"),
        "no verb adds columns: update_schema of an Iceberg table, ALTER TABLE of Spark",
    ),
    "sort_order": "a Delta table has no sort order: rewrite_data_files(sort_by=) sorts its rows",
    "lazy": "to_polars().lazy() is a LazyFrame",
}
"""Keywords of other libraries that have no counterpart: what an error says."""


def right_name(unknown: str, known: Iterable[str]) -> str | None:
    """The parameter that another library calls `unknown`, or one of a near name; None if there is none."""
    same = [right for right in known if unknown in _OTHER_NAMES.get(right, ())]
    return next(iter(same or get_close_matches(unknown, known, n=1)), None)


def _message(name: str, unknown: str, known: Any) -> str:
    right = right_name(unknown, known)
    hint = _NO_KEYWORD.get(unknown) or f"it has {', '.join(known)}"
    if right:
        hint = f"write {right}="
    return f"{name}() got an unexpected keyword argument {unknown!r}; {hint}"
