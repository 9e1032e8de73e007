"""Tables of Delta."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from puffin_fast.delta.dml.attempt import DeltaAttempt
from puffin_fast.delta.dml.tables import create_table
from puffin_fast.delta.log.commit import check_properties
from puffin_fast.delta.log.storage import TableStorage, storage_of
from puffin_fast.tables.table import Table
from puffin_fast.verbs.options import Options


class DeltaTable(Table):
    """A table of Delta; its head is its newest version.

    Attributes:
        storage: the files of the table.
    """

    format = "Delta"
    lacks: ClassVar[Mapping[str, str]] = {"branch": "a table has one line of versions"}

    def __init__(self, storage: TableStorage) -> None:
        self.storage, self.name = storage, storage.root

    @classmethod
    def of(cls, table: Any, name: str | tuple[str, ...] | None, filesystem: Any) -> Self:
        return cls(storage_of(table, filesystem))

    @classmethod
    def at(cls, path: str, filesystem: Any) -> Self:
        return cls(storage_of(path, filesystem))

    @classmethod
    def create(cls, path: str, schema: Any, filesystem: Any, **options: Any) -> Self:
        columns = options.pop("partition_spec")
        create_table(path, schema, partition_columns=columns, filesystem=filesystem, **options)
        return cls.at(path, filesystem)

    def check(self, options: Options) -> None:
        super().check(options)
        check_properties(options.snapshot_properties)

    def attempt(self, options: Options) -> DeltaAttempt:
        return DeltaAttempt(self.storage, options)
