"""A table of any format: the handle that all functions of tables use."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from puffin_fast.errors import UnsupportedError
from puffin_fast.tables.delete import delete, delete_keys, delete_positions
from puffin_fast.tables.overwrite import append, dynamic_partition_overwrite, overwrite
from puffin_fast.tables.transaction import transaction
from puffin_fast.tables.update import update
from puffin_fast.tables.upsert import upsert
from puffin_fast.verbs.attempt import Action, Attempt
from puffin_fast.verbs.options import Options

Result = TypeVar("Result")


class Table(ABC):
    """A table. `open_table` returns one; its methods are the functions of `puffin_fast` with the same names.

    Attributes:
        format: the name of its format.
        name: its name in a catalog, or its location.
    """

    format: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}
    """By function, or by option of functions: why this format does not have it, and what to use instead."""

    name: str

    # what a format implements ------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def of(cls, table: Any, name: str | tuple[str, ...] | None, filesystem: Any) -> Self:
        """Makes a table of an object of another library; arguments as those of `open_table`."""

    @classmethod
    @abstractmethod
    def at(cls, path: str, filesystem: Any) -> Self:
        """Opens the table in a folder that has the format's folder of metadata."""

    @classmethod
    def create(cls, path: str, schema: Any, filesystem: Any, **options: Any) -> Self:
        """Creates a table in a folder; `create_table` has the options.

        Raises:
            UnsupportedError: tables of this format are not created here.
        """
        raise UnsupportedError(f"{path}: tables of {cls.format} are not created")

    @abstractmethod
    def attempt(self, options: Options) -> Attempt:
        """Begins an attempt on the newest head.

        Raises:
            PuffinFastError: the table cannot be changed; the job id was used by another verb.
        """

    # what all formats share --------------------------------------------------------------------------------

    def check(self, options: Options) -> None:
        """Checks that the format has the verb and the options.

        Raises:
            UnsupportedError: it has not; the message says why, and what to use instead.
        """
        self.need(options.verb)
        defaults = Options(verb=options.verb)
        for option in self.lacks.keys() & {field.name for field in dataclasses.fields(Options)}:
            if getattr(options, option) != getattr(defaults, option):
                self.need(option)

    def need(self, name: str) -> None:
        """Raises UnsupportedError if the format does not have a function or an option."""
        if name in self.lacks:
            raise UnsupportedError(f"{self.name}: tables of {self.format} have no {name}: {self.lacks[name]}")

    def run(self, action: Action, options: Options, kind: type[Result]) -> Result:
        """Runs an action and commits; returns a result of the given class."""
        self.check(options)
        return self.attempt(options).run(action, kind)

    append = append
    delete = delete
    delete_keys = delete_keys
    delete_positions = delete_positions
    dynamic_partition_overwrite = dynamic_partition_overwrite
    overwrite = overwrite
    transaction = transaction
    update = update
    upsert = upsert

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"
