"""Tables, readers and cases that several tests share with `test_table`."""

from __future__ import annotations

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

Options = tuple[str, ...]


def open_table(options: Options) -> Table:
    return load_catalog("c", uri=options[3], warehouse=options[5]).load_table("ns.t")


def count(options: Options) -> int:
    rows: int = open_table(options).scan().to_arrow().num_rows
    return rows
