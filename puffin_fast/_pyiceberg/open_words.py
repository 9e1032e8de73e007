"""Words in table metadata that PyIceberg 0.12 refuses although the specification leaves them open, or Java reads them.

| metadata has | Java | PyIceberg | once `open_words` has run |
|---|---|---|---|
| a blob of any type in ``statistics`` | reads it | knows two types | any text |
| any ``operation`` of a snapshot | reads it | knows four | an `Operation` of that value |
| a reference's ``type``, a sort field's ``direction`` or ``null-order`` in capitals | reads it | no | its own member |

Their fields are parts of many Pydantic models, whose validators are made anew. That takes longer than to parse the
metadata, so it is done when a document was refused for such a word; it is then parsed again.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 have closed lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from graphlib import TopologicalSorter
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pyiceberg.exceptions import ValidationError as InvalidMetadata
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.table.statistics import BlobMetadata
from pyiceberg.typedef import IcebergBaseModel, IcebergRootModel

from puffin_fast._process.fork import lock_across_fork
from puffin_fast.acceleration import Patch

_WORDS = {"type", "operation", "direction", "null-order"}
_ERRORS = {"literal_error", "enum"}

_lock = lock_across_fork()
_opened = False


def _refused_word(error: BaseException | None) -> bool:
    """Whether a document was refused for such a word."""
    if not isinstance(error, ValidationError):
        return False
    return any(
        one["type"] in _ERRORS and one["loc"][-1:][0] in _WORDS for one in error.errors() if one["loc"]
    )


def open_words(error: BaseException | None) -> bool:
    """Opens the fields, if `error` is about a refused word.

    Returns:
        whether it is: the document may be parsed again.
    """
    if not _refused_word(error):
        return False
    with _lock:
        _open_once()
    return True


def _open_once() -> None:
    global _opened
    if not _opened:
        _open()
        _opened = True


def _member_of_any_case(kind: type[Enum], value: object) -> Enum | None:
    return next((one for one in kind if str(one.value).lower() == str(value).lower()), None)


def _any_operation(kind: type[Enum], value: object) -> Enum | None:
    if not isinstance(value, str):
        return None
    made: Any = str.__new__(kind, value) if issubclass(kind, str) else object.__new__(kind)
    made._name_ = made._value_ = value
    member: Enum = made
    kind._value2member_map_[value] = member
    return member


def _operation(value: str) -> Operation:
    """The operation of a value, also in a process that has not read such metadata."""
    with _lock:
        _open_once()
    return Operation(value)


def _open() -> None:
    for kind in (SnapshotRefType, SortDirection, NullOrder):
        kind._missing_ = classmethod(_member_of_any_case)  # type: ignore[assignment]
    Operation._missing_ = classmethod(_any_operation)  # type: ignore[assignment]
    operation: Any = Operation
    operation.__reduce_ex__ = lambda self, protocol: (_operation, (self.value,))
    operation.__deepcopy__ = lambda self, memo: self
    BlobMetadata.__annotations__["type"] = str
    BlobMetadata.model_fields["type"].annotation = str
    opened = {BlobMetadata, SnapshotRefType, SortDirection, NullOrder, Operation}
    uses = {model: set(_parts(model)) for model in _models(IcebergBaseModel, IcebergRootModel)}
    affected: set[Any] = {BlobMetadata}
    while more := {model for model, parts in uses.items() if parts & (opened | affected)} - affected:
        affected |= more
    for model in TopologicalSorter({one: uses[one] & affected - {one} for one in affected}).static_order():
        model.model_rebuild(force=True)


def _models(*roots: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for root in roots:
        for model in root.__subclasses__():
            yield model
            yield from _models(model)


def _parts(model: type[BaseModel]) -> Iterator[Any]:
    """Yields all types in the annotations of a model's fields."""

    def parts(annotation: Any) -> Iterator[Any]:
        yield annotation
        for part in get_args(annotation):
            yield from parts(part)

    for field in model.model_fields.values():
        yield from (part for part in parts(field.annotation) if isinstance(part, type))


_parse_json = BaseModel.model_validate_json.__func__  # type: ignore[attr-defined]
_parse_obj = TableMetadataUtil.parse_obj


def _model_validate_json(cls: Any, *args: Any, **options: Any) -> Any:
    try:
        return _parse_json(cls, *args, **options)
    except ValidationError as error:
        if not open_words(error):
            raise
    return _parse_json(cls, *args, **options)


def _parse_document(data: dict[str, Any]) -> Any:
    try:
        return _parse_obj(data)
    except (ValidationError, InvalidMetadata) as error:
        if not (open_words(error) or open_words(error.__cause__)):
            raise
    return _parse_obj(data)


def parsing_patches() -> list[Patch]:
    """The replaced functions that parse metadata. They accept the parameters of the original ones."""
    json = ("json_data", "strict", "extra", "context", "by_alias", "by_name")
    return [
        *(
            Patch(owner, "model_validate_json", classmethod(_model_validate_json), json)
            for owner in (IcebergBaseModel, IcebergRootModel)
        ),
        Patch(TableMetadataUtil, "parse_obj", staticmethod(_parse_document), ("data",)),
    ]
