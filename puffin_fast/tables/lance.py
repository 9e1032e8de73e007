"""Datasets of Lance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from puffin_fast.lance.checks import findings_of
from puffin_fast.lance.deletions import vectors
from puffin_fast.rows.findings import Findings, Level
from puffin_fast.tables.table import Table
from puffin_fast.verbs.listed_deletes import vectors_table

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pyarrow as pa
    from pyspark.sql import SparkSession

_PYLANCE = "pylance changes datasets: lance.dataset(uri).{}"


class LanceTable(Table):
    """A dataset of Lance.

    Attributes:
        dataset: its path or URI, or pylance's dataset.
    """

    format = "Lance"
    lacks: ClassVar[Mapping[str, str]] = {
        "append": "lance.write_dataset(rows, uri, mode='append') of pylance appends rows",
        "as_of": "lance.dataset(uri, version=…) opens a version",
        "branch": "a dataset has one line of versions",
        "changes": "compare two versions by pylance",
        "delete": _PYLANCE.format("delete(filter)"),
        "delete_keys": _PYLANCE.format("merge_insert(keys)"),
        "delete_positions": "pf.lance.delete_positions takes positions by fragment",
        "dynamic_partition_overwrite": "datasets have no partitions",
        "file_paths": "the manifest lists all fragments",
        "report": "manifests do not say what deletes cost",
        "snapshot_id": "lance.dataset(uri, version=…) opens a version",
        "tag": "lance.dataset(uri, version=…) opens a version",
        "workers": "pylance reads the data files",
        "overwrite": "lance.write_dataset(rows, uri, mode='overwrite') of pylance replaces the rows",
        "maintain": _PYLANCE.format("optimize.compact_files()"),
        "orphan_files": _PYLANCE.format("cleanup_old_versions()"),
        "remove_orphan_files": _PYLANCE.format("cleanup_old_versions()"),
        "rewrite_data_files": _PYLANCE.format("optimize.compact_files()"),
        "scan": "lance.dataset(uri).scanner(filter=…) of pylance reads rows",
        "transaction": _PYLANCE.format("delete(filter)"),
        "update": _PYLANCE.format("update(values, filter)"),
        "upsert": _PYLANCE.format("merge_insert(keys)"),
    }

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.name = str(getattr(dataset, "uri", dataset))

    @classmethod
    def of(cls, table: Any, name: str | tuple[str, ...] | None, filesystem: Any) -> Self:
        return cls(table)

    @classmethod
    def at(cls, path: str, filesystem: Any) -> Self:
        return cls(path)

    def listed_deletes(self, only: set[str] | None, **selected: Any) -> pa.Table:
        return vectors_table(
            (str(row["fragment"]), row["n_rows"], row["deletion_file"], None, None, row["cardinality"])
            for row in vectors(self.dataset).to_pylist()
        )

    def findings(
        self,
        level: Level,
        threads: int | None,
        workers: Executor | SparkSession | None,
        **selected: Any,
    ) -> Findings:
        return findings_of(self.dataset, level, threads)
