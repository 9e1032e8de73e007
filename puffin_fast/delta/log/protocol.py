"""The protocol of a table: the features that it requires of readers and writers, and those that are supported here."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from puffin_fast.errors import CorruptDataError, EngineSupportWarning, UnsupportedError

DELETION_VECTORS = "deletionVectors"
CHECKPOINT_PROTECTION = "checkpointProtection"
ENABLE_VECTORS = "delta.enableDeletionVectors"
CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
ICEBERG_COMPAT_V3 = "delta.enableIcebergCompatV3"
ISOLATION = "delta.isolationLevel"
MAPPING_MODE = "delta.columnMapping.mode"
MAPPING_MAX_ID = "delta.columnMapping.maxColumnId"
MAPPING_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"

MAX_READER, MAX_WRITER = 3, 7
FEATURES = (3, 7)
"""The reader and writer versions with lists of features."""

READER_FEATURES = frozenset(
    {
        "columnMapping",
        DELETION_VECTORS,
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)
"""Reader features that scans support. deltalake lists `variantType` in tables without variants, too."""

WRITER_FEATURES = READER_FEATURES | {
    "allowColumnDefaults",
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    CHECKPOINT_PROTECTION,
    "clustering",
    "domainMetadata",
    "generatedColumns",
    "icebergCompatV3",
    "identityColumns",
    "inCommitTimestamp",
    "inCommitTimestamp-preview",
    "invariants",
    "materializePartitionColumns",
    "rowTracking",
}
"""Features that a commit of deletion vectors preserves."""

COLUMN_MAPPING = "columnMapping"
_LEGACY = {
    "appendOnly": (1, 2),
    "invariants": (1, 2),
    "checkConstraints": (1, 3),
    "changeDataFeed": (1, 4),
    "generatedColumns": (1, 4),
    COLUMN_MAPPING: (2, 5),
    "identityColumns": (1, 6),
}
"""The reader and writer versions that imply each feature, before the lists of features."""


@dataclass(frozen=True)
class Protocol:
    """The newest `protocol` action.

    Attributes:
        reader, writer: the versions.
        reader_features, writer_features: the listed features, and those that older versions imply.
    """

    reader: int
    writer: int
    reader_features: frozenset[str]
    writer_features: frozenset[str]

    @classmethod
    def of(cls, action: Mapping[str, Any], path: str) -> Protocol:
        """Reads a `protocol` action.

        Raises:
            CorruptDataError: a version with features does not list them.
        """
        reader, writer = action["minReaderVersion"], action["minWriterVersion"]
        readers, writers = action.get("readerFeatures"), action.get("writerFeatures")
        if (reader >= FEATURES[0] and readers is None) or (writer >= FEATURES[1] and writers is None):
            raise CorruptDataError("protocol action", path=path, expected="features", found=str(action))
        implied = {
            name
            for name, (least_reader, least_writer) in _LEGACY.items()
            if least_reader <= reader and (least_writer <= writer < FEATURES[1] or name in set(writers or ()))
        }
        return cls(
            reader,
            writer,
            frozenset(readers or ()) | (implied & READER_FEATURES if reader < FEATURES[0] else set()),
            frozenset(writers or ()) | implied,
        )

    @property
    def has_vectors(self) -> bool:
        """Whether readers and writers must know deletion vectors."""
        return (
            self.reader >= FEATURES[0]
            and self.writer >= FEATURES[1]
            and DELETION_VECTORS in self.reader_features & self.writer_features
        )

    def action(self) -> dict[str, Any]:
        """Returns the `protocol` action."""
        found: dict[str, Any] = {"minReaderVersion": self.reader, "minWriterVersion": self.writer}
        if self.reader >= FEATURES[0]:
            found["readerFeatures"] = sorted(self.reader_features)
        if self.writer >= FEATURES[1]:
            found["writerFeatures"] = sorted(self.writer_features)
        return found


def is_set(configuration: Mapping[str, str], name: str) -> bool:
    """Whether a property of a table is true."""
    return configuration.get(name, "false").lower() == "true"


def integer_of(configuration: Mapping[str, str], name: str, default: int, root: str) -> int:
    """Returns a property of a table that is a number.

    Raises:
        CorruptDataError: it is another text.
    """
    text = configuration.get(name, str(default))
    if re.fullmatch(r"[+-]?\d{1,9}|[+-]?[01]\d{9}", text.strip(), re.ASCII) is None:
        raise CorruptDataError(f"property {name}", path=root, expected="an integer", found=text)
    return int(text)


def check_readable(protocol: Protocol, root: str) -> None:
    """Refuses a table that scans might not read correctly.

    Raises:
        UnsupportedError: the protocol version or a feature is unknown; the message names it.
    """
    if protocol.reader > MAX_READER:
        raise UnsupportedError(
            f"{root}: the table needs reader version {protocol.reader}, up to {MAX_READER} are known"
        )
    if unknown := sorted(protocol.reader_features - READER_FEATURES):
        raise UnsupportedError(f"{root}: unknown reader features {', '.join(unknown)}")


def check_committable(protocol: Protocol, configuration: Mapping[str, str], root: str) -> None:
    """Refuses a table to which changes of deletion vectors must not be committed.

    Raises:
        UnsupportedError: a feature is unknown, forbids deletion vectors, or moves the commits to another place; the
        message names it.
    """
    check_readable(protocol, root)
    if protocol.writer > MAX_WRITER:
        raise UnsupportedError(
            f"{root}: the table needs writer version {protocol.writer}, up to {MAX_WRITER} are known"
        )
    if unknown := sorted(protocol.writer_features - WRITER_FEATURES):
        raise UnsupportedError(f"{root}: writer features {', '.join(unknown)} are not supported")

    for version in ("V1", "V2"):
        if is_set(configuration, f"delta.enableIcebergCompat{version}"):
            raise UnsupportedError(
                f"{root}: delta.enableIcebergCompat{version} is set, which forbids deletion vectors"
            )
    redirects = [name for name in configuration if name.startswith("delta.redirect")]
    coordinated = [name for name in configuration if name.startswith("delta.coordinatedCommits")]
    if redirects or coordinated:
        raise UnsupportedError(
            f"{root}: {(redirects + coordinated)[0]} is set, so commits are not made in this log"
        )


def check_deletable(
    protocol: Protocol, configuration: Mapping[str, str], root: str, *, by_vector: bool
) -> None:
    """Refuses a table from which rows must not be deleted.

    Args:
        protocol, configuration, root: the protocol, configuration and root of the table.
        by_vector: whether a data file gets a new deletion vector; else all its rows are deleted.

    Raises:
        UnsupportedError: rows may only be appended, or vectors are not enabled.
    """
    if is_set(configuration, "delta.appendOnly"):
        raise UnsupportedError(f"{root}: delta.appendOnly is set, so rows cannot be deleted")
    if by_vector and not (protocol.has_vectors and is_set(configuration, ENABLE_VECTORS)):
        raise UnsupportedError(
            f"{root}: deletion vectors are not enabled; puffin_fast.delta.enable(table) enables them"
        )


_COMPUTED = ("delta.generationExpression", "delta.identity.start", "delta.invariants")
"""The metadata of columns whose values must be computed or checked by SQL."""

_CHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata of columns of text that are ``char(n)`` or ``varchar(n)`` for Spark, which checks lengths and pads."""

_COLLATED = "__COLLATIONS"
"""The metadata of columns with text that Spark compares by a collation."""


_NOT_WRITTEN = ("void",)
"""A type that data files do not have."""


def check_types_writable(fields: Sequence[Mapping[str, Any]], root: str) -> None:
    """Refuses a table whose columns cannot be in a new data file.

    Raises:
        UnsupportedError: a column is of such a type; it is named.
    """
    for field in fields:
        for kind in types_inside(field["type"]):
            if kind in _NOT_WRITTEN:
                raise UnsupportedError(
                    f"{root}: column {field['name']} is of type {kind}, which is not written"
                )


def types_inside(kind: Any) -> Iterator[Any]:
    """Yields a type of the log, and the types in it at any depth. Primitives are their names."""
    yield kind
    if isinstance(kind, str):
        return
    parts = (kind[name] for name in ("elementType", "keyType", "valueType") if name in kind)
    for one in (*(field["type"] for field in kind.get("fields", ())), *parts):
        yield from types_inside(one)


def _fields_of(field: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields a field, and the fields of the structs in its type, at any depth."""
    yield field
    for kind in types_inside(field["type"]):
        if not isinstance(kind, str):
            yield from kind.get("fields", ())


def check_rows_writable(
    configuration: Mapping[str, str], fields: Sequence[Mapping[str, Any]], root: str
) -> None:
    """Refuses a table to which new rows must not be written without SQL.

    Raises:
        UnsupportedError: there is a constraint, a generated or identity column, one with texts of limited lengths
        inside of another type, or one without a type; the message names it.
    """
    check_types_writable(fields, root)
    constraints = [name for name in configuration if name.startswith("delta.constraints.")]
    if constraints:
        raise UnsupportedError(f"{root}: {constraints[0]} is set, and CHECK constraints are not supported")
    for field in fields:
        for inner in _fields_of(field):
            metadata = inner.get("metadata") or {}
            for name in _COMPUTED:
                if name in metadata:
                    raise UnsupportedError(
                        f"{root}: column {inner['name']} has {name}, which is not supported"
                    )
            if metadata.get(_CHAR) and (inner is not field or longest_text(field) is None):
                raise UnsupportedError(
                    f"{root}: column {inner['name']} is {metadata[_CHAR]} for Spark, which checks the lengths of its "
                    "values; rows are not written"
                )


def longest_text(field: Mapping[str, Any]) -> int | None:
    """The number of characters of a field of ``char(n)`` or ``varchar(n)``; None for others, such as arrays of them."""
    found = re.fullmatch(r"(?:var)?char\((\d+)\)", str((field.get("metadata") or {}).get(_CHAR, "")).lower())
    return int(found[1]) if found else None


def check_text_compared(fields: Sequence[Mapping[str, Any]], text: str, root: str) -> None:
    """Refuses a condition or keys of Spark on columns of text that Spark pads with blanks, or compares by a collation.

    Args:
        fields: the fields of the table.
        text: the text of the condition, or the names of the columns.
        root: the location of the table.

    Raises:
        UnsupportedError: the text has the name of such a column.
    """
    for field in fields:
        for inner in _fields_of(field):
            name, metadata = inner["name"], inner.get("metadata") or {}
            found = str(metadata.get(_CHAR, "")).lower()
            if re.search(r"\bchar\b", found):
                reason = f"is {found} for Spark, which pads its values when it reads them"
            elif _COLLATED in metadata:
                reason = f"has a collation, {metadata[_COLLATED]}, by which Spark compares its values"
            else:
                continue
            if re.search(rf"(?<!\w){re.escape(field['name'])}(?!\w)", text, re.IGNORECASE):
                raise UnsupportedError(
                    f"{root}: column {name} {reason}; expected a PyIceberg expression, which compares the stored text"
                )


def with_vectors(protocol: Protocol, configuration: Mapping[str, str]) -> Protocol:
    """Returns the protocol with deletion vectors and with all features of this one.

    A feature of readers and writers is in both lists (protocol, "Table Features").
    """
    mapped = {COLUMN_MAPPING} if configuration.get(MAPPING_MODE, "none") != "none" else set()
    readers = protocol.reader_features | (protocol.writer_features & READER_FEATURES)
    readers |= {DELETION_VECTORS, *mapped}
    return Protocol(*FEATURES, readers, protocol.writer_features | readers)


def without_vectors(protocol: Protocol, *, protected: bool) -> Protocol:
    """Returns the protocol without deletion vectors, of the lowest versions that have all other features.

    Args:
        protected: adds `checkpointProtection`, which writers of a table with vectors in its history must know.
    """
    readers = protocol.reader_features - {DELETION_VECTORS}
    writers = (protocol.writer_features | ({CHECKPOINT_PROTECTION} if protected else set())) - {
        DELETION_VECTORS
    }
    reader = FEATURES[0] if readers - {COLUMN_MAPPING} else _LEGACY[COLUMN_MAPPING][0] if readers else 1
    if reader < FEATURES[0]:
        for writer in range(_LEGACY["appendOnly"][1], FEATURES[1]):
            if writers == {
                name for name, least in _LEGACY.items() if least[0] <= reader and least[1] <= writer
            }:
                return Protocol(reader, writer, readers, writers)
    return Protocol(reader, FEATURES[1], readers, writers)


def warn_of_vectors(root: str, *, stacklevel: int) -> None:
    """Warns that some engines cannot read a table for which deletion vectors are enabled.

    Args:
        root: the location of the table.
        stacklevel: the stack level of the warning: 1 is the caller of this function.
    """
    warnings.warn(
        f"table {root}: deltalake's to_pandas, to_pyarrow_table and to_pyarrow_dataset cannot read tables with "
        "deletion vectors; its QueryBuilder can; puffin_fast.delta.disable(table) removes them and the feature",
        EngineSupportWarning,
        stacklevel=stacklevel + 1,
    )
