"""Fixtures that call the command line in this process, and a small catalog."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from puffin_fast.cli import main

if TYPE_CHECKING:
    from pyiceberg.table import Table

ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "word": [f"w{i % 7}" for i in range(1000)]})


class Shell:
    """``puffin-fast`` in this process. Whatever escapes it is raised.

    Args:
        options: follow the arguments of each command; those of a catalog, with which there is the table ``ns.t``.
    """

    def __init__(self, options: tuple[str, ...] = ()) -> None:
        self.options = options

    def run(self, *arguments: object, data: bytes | None = None) -> Result:
        """Runs a command, with `data` as standard input."""
        given = [*map(str, arguments), *self.options]
        return CliRunner().invoke(main, given, input=data, catch_exceptions=False)

    def says(self, *arguments: object, data: bytes | None = None) -> str:
        """Returns the text that a command prints; it has to succeed."""
        done = self.run(*arguments, data=data)
        assert done.exit_code == 0, done.output
        return done.stdout

    def ask(self, *arguments: object) -> Any:
        """Returns the JSON that a command prints."""
        return json.loads(self.says(*arguments, "--output", "json"))

    def one(self, *arguments: object) -> dict[str, Any]:
        """Returns the only row that a command prints."""
        (row,) = self.ask(*arguments)
        found: dict[str, Any] = row
        return found

    def failing(self, *arguments: object) -> Any:
        """Returns the JSON that a command prints which finds errors."""
        done = self.run(*arguments, "--output", "json")
        assert done.exit_code == 1, done.output
        return json.loads(done.stdout)

    def refused(self, *arguments: object, code: int = 1, data: bytes | None = None) -> str:
        """Returns the error of a command: of one line, unless its usage is wrong (code 2); it leaves the table."""
        before = self.options and self.table.metadata_location
        done = self.run(*arguments, data=data)
        assert (done.exit_code, done.stdout) == (code, ""), done.output
        lines = [line for line in done.stderr.splitlines() if not line.startswith("puffin-fast: note: ")]
        assert code == 2 or len(lines) == 1, done.stderr
        assert before == (self.options and self.table.metadata_location)
        return done.stderr

    @property
    def table(self) -> Table:
        """The table of the catalog as it is now."""
        return open_table(self.options)

    def count(self) -> int:
        """Returns the number of rows that PyIceberg reads."""
        return self.table.scan().to_arrow().num_rows


def open_table(options: tuple[str, ...]) -> Table:
    """The table ``ns.t`` of the catalog that options name."""
    from pyiceberg.catalog import load_catalog

    return load_catalog("c", uri=options[3], warehouse=options[5]).load_table("ns.t")


@pytest.fixture
def run() -> Callable[..., Result]:
    """Runs ``puffin-fast`` with arguments, as `Shell.run`."""
    return Shell().run


@pytest.fixture
def catalog_options(tmp_path: Path) -> tuple[str, ...]:
    """Options of a SQLite catalog that holds the table ``ns.t`` of 1000 rows, ``id`` and ``word``."""
    from pyiceberg.catalog import load_catalog

    from puffin_fast import iceberg

    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/tables"
    catalog = load_catalog("c", uri=uri, warehouse=warehouse)
    catalog.create_namespace("ns")
    iceberg.append(iceberg.create_table(catalog, "ns.t", ROWS.schema), ROWS)
    catalog.close()
    return "--catalog", "c", "--uri", uri, "--warehouse", warehouse


@pytest.fixture
def shell(catalog_options: tuple[str, ...]) -> Shell:
    """The command line on the catalog of `catalog_options`."""
    return Shell(catalog_options)
