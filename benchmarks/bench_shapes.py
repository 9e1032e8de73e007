"""Benchmarks of tables of many shapes (`table_shapes`): types, nulls, nested, wide, codecs, deletes. Run as a script.

    python -m benchmarks.bench_shapes                       all shapes and jobs
    python -m benchmarks.bench_shapes --only vectors        the jobs whose name holds this; given twice, both
    python -m benchmarks.bench_shapes --share 0.1           a tenth of the rows
    python -m benchmarks.bench_shapes --memory              peak memory instead, each job in a process of its own
                                                            (results/memory.json)

Each shape is made from a seed, once, and kept. Its jobs: count the rows of a filter, read them, read some columns of
all rows, read all. Contenders take turns in one process of one thread; each result is compared with DuckDB's number of
rows and sum of ids before anything is timed. What is behind the best peer is printed at the end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.engines import duckdb_with_delta, duckdb_with_iceberg
from benchmarks.figures import MEMORY, TIMES
from benchmarks.jobs import Contenders, measure_job
from benchmarks.machine import report
from benchmarks.rounds import OURS
from benchmarks.table_shapes import SHAPES, Shape

if TYPE_CHECKING:
    from pyiceberg.table import Table

DUCKDB, PYICEBERG, POLARS, DELTALAKE, PYARROW = "DuckDB", "PyIceberg", "Polars", "deltalake", "PyArrow"
COUNT, FILTER, COLUMNS, WHOLE = "count", "filter", "columns", "whole"
JOBS = (COUNT, FILTER, COLUMNS, WHOLE)

_FOLDER = str.maketrans({" ": "-", ",": None, "%": None})
"""Characters of names of shapes that have others in names of folders: DuckDB decodes `%`."""


# Tables ------------------------------------------------------------------------------------------------------


def table_of(folder: Path, name: str, share: float) -> Any:
    """The table of a shape: of PyIceberg, or the path of a Delta table; made once, then kept."""
    shape, root = SHAPES[name], folder / f"{name.translate(_FOLDER)}-{share:g}"
    new = not (root / "done").exists()
    if shape.format == "delta":
        if new:
            import deltalake

            rows = shape.rows(np.random.default_rng(0), int(shape.n_rows * share))
            if shape.partition:
                rows = rows.append_column("p", pc.bit_wise_and(rows["k"], 15))
            configuration = {"delta.enableDeletionVectors": "true"} if shape.deleted else None
            deltalake.write_deltalake(
                str(root / "table"),
                rows,
                mode="overwrite",
                partition_by=list(shape.partition) or None,
                configuration=configuration,
            )
            if shape.deleted:
                from puffin_fast import delta

                delta.delete(str(root / "table"), shape.deleted)
            (root / "done").touch()
        return root / "table"
    from pyiceberg.catalog.sql import SqlCatalog

    root.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/wh")
    if new:
        _make(catalog, shape, share)
        (root / "done").touch()
    return catalog.load_table("n.t")


def _make(catalog: Any, shape: Shape, share: float) -> None:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    from puffin_fast import iceberg
    from puffin_fast.iceberg.commit.changes import Changes
    from puffin_fast.iceberg.commit.protocol import commit

    catalog.create_namespace_if_not_exists("n")
    if catalog.table_exists("n.t"):
        catalog.drop_table("n.t")
    n_rows = int(shape.n_rows * share)
    rows = shape.rows(np.random.default_rng(0), n_rows)
    first = rows.schema
    for name in shape.older:
        first = first.remove(first.get_field_index(name))
    table = iceberg.create_table(catalog, "n.t", first, partition_spec=shape.partition)
    if shape.partition or shape.older:
        iceberg.append(table, rows.slice(0, n_rows // 2).select(first.names))
        if shape.older:
            with iceberg.accelerate(), table.update_schema() as update:
                update.union_by_name(rows.schema)
        iceberg.append(table, rows.slice(n_rows // 2))
        return
    data = Path(table.location().removeprefix("file://"), "data")
    data.mkdir(parents=True)
    arrow = schema_to_pyarrow(table.schema(), include_field_ids=True)
    entries = []
    for number in range(shape.n_files):
        first, stop = (n_rows * at // shape.n_files for at in (number, number + 1))
        some, path = rows.slice(first, stop - first).cast(arrow), data / f"{number:05d}.{shape.format}"
        if shape.format == "avro":
            _write_avro(some, table, path, shape.codec)
        elif shape.format == "orc":
            _write_orc(some, path)
        else:
            pq.write_table(
                some,
                path,
                row_group_size=shape.group_rows or None,
                compression=shape.codec,
                store_schema=False,
                **shape.options,
            )
        entries.append(_entry(f"file://{path}", shape.format.upper(), len(some), path.stat().st_size))
    commit(table, Changes(added=tuple(entries)), base=None)
    if shape.deleted:
        iceberg.delete(table, shape.deleted)


def _write_orc(rows: pa.Table, path: Path) -> None:
    from pyarrow import orc

    ids = {field.name: {b"iceberg.id": field.metadata[b"PARQUET:field_id"]} for field in rows.schema}
    fields = [field.with_metadata(ids[field.name]) for field in rows.schema]
    orc.write_table(rows.cast(pa.schema(fields)), path, compression="zstd")


def _write_avro(rows: pa.Table, table: Table, path: Path, codec: str) -> None:
    import fastavro
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    schema = AvroSchemaConversion().iceberg_to_avro(table.schema(), schema_name="row")
    with path.open("wb") as file:
        fastavro.writer(
            file,
            schema,
            rows.to_pylist(),
            codec="deflate" if codec == "zstd" else codec,
            metadata={"iceberg.schema": table.schema().model_dump_json()},
        )


def _entry(path: str, format: str, n_rows: int, size: int) -> Any:
    from puffin_fast.iceberg.manifest import ADDED, ManifestEntry

    return ManifestEntry(
        status=ADDED,
        snapshot_id=None,
        sequence_number=None,
        file_sequence_number=None,
        content=0,
        file_path=path,
        file_format=format,
        spec_id=0,
        partition=(),
        record_count=n_rows,
        file_size_in_bytes=size,
    )


# Contenders --------------------------------------------------------------------------------------------------


def calls_of(duckdb: Any, table: Any, shape: Shape, job: str) -> dict[str, Callable[[], Any]]:
    """What each contender does; the result is a number of rows, or a table."""
    where = shape.where if job in (COUNT, FILTER) else None
    columns = shape.columns if job == COLUMNS else None
    is_delta = shape.format == "delta"
    source = f"delta_scan('{table}')" if is_delta else f"iceberg_scan('{table.metadata_location}')"
    if shape.format == "avro":  # DuckDB's scan of a table reads Parquet only
        source = f"read_avro({_files(table)})"
    query = f"FROM {source}" + (f" WHERE {shape.sql or where}" if where else "")
    found: dict[str, Callable[[], Any]] = {}
    found[DUCKDB] = (
        (lambda: duckdb.sql(f"SELECT count(*) {query}").fetchone()[0])
        if job == COUNT
        else (lambda: duckdb.sql(f"SELECT {', '.join(columns or '*')} {query}").to_arrow_table())
    )
    options: dict[str, Any] = {"threads": 1}
    if where is not None:
        options["row_filter"] = where
    if columns is not None:
        options["selected_fields"] = tuple(columns)
    if is_delta:
        from puffin_fast import delta

        scan: Callable[..., Any] = partial(delta.scan, str(table))
    else:
        from puffin_fast import iceberg

        scan = partial(iceberg.scan, table)
    found[OURS] = (lambda: scan(**options).count()) if job == COUNT else (lambda: scan(**options).to_arrow())
    if shape.format == "orc":
        del found[DUCKDB]
        found |= _with_pyarrow(table, job, where, columns)
    else:
        found |= _with_polars(table, shape, job, where, columns)
    if is_delta:
        import deltalake

        def by_deltalake() -> Any:
            rows = deltalake.DeltaTable(str(table)).to_pyarrow_dataset()
            chosen = None if where is None else _expression(where)
            if job == COUNT:
                return rows.count_rows(filter=chosen)
            names = (
                None
                if columns is None
                else {name.replace(".", "_"): pc.field(*name.split(".")) for name in columns}
            )
            return rows.to_table(filter=chosen, columns=names)

        found[DELTALAKE] = by_deltalake
    elif shape.format == "parquet":
        chosen = {"row_filter": where} if where else {}
        fields = {"selected_fields": tuple(columns)} if columns else {}
        found[PYICEBERG] = lambda: (
            table.scan(**chosen, **fields).count()
            if job == COUNT
            else table.scan(**chosen, **fields).to_arrow()
        )
    return found


def _with_pyarrow(
    table: Any, job: str, where: str | None, columns: Sequence[str] | None
) -> dict[str, Callable[[], Any]]:
    """PyArrow's datasets, of ORC files."""
    from pyarrow import dataset

    def run() -> Any:
        rows = dataset.dataset(_files(table), format="orc")
        chosen = None if where is None else _expression(where)
        return (
            rows.count_rows(filter=chosen)
            if job == COUNT
            else rows.to_table(list(columns) if columns else None, filter=chosen)
        )

    return {PYARROW: run}


def _files(table: Any) -> list[str]:
    from puffin_fast import iceberg

    return [task.data.file_path.removeprefix("file://") for task in iceberg.plan_files(table).tasks]


def _expression(where: str) -> pc.Expression:
    name, value = where.split(" < ")
    return pc.field(*name.split(".")) < float(value)


def _with_polars(
    table: Any, shape: Shape, job: str, where: str | None, columns: Sequence[str] | None
) -> dict[str, Callable[[], Any]]:
    """Polars' scan, or its reader of Avro files."""
    import polars as pl

    def column(name: str) -> Any:
        first, *rest = name.split(".")
        found = pl.col(first)
        for inner in rest:
            found = found.struct.field(inner)
        return found

    def run() -> Any:
        frame = (
            pl.scan_delta(str(table))
            if shape.format == "delta"
            else pl.concat([pl.read_avro(path) for path in _files(table)]).lazy()
            if shape.format == "avro"
            else pl.scan_iceberg(table, reader_override="native")
        )
        if where is not None and " in (" in where:
            name, _, values = where.partition(" in ")
            frame = frame.filter(column(name).is_in(list(eval(values))))
        elif where is not None:
            name, value = where.split(" < ")
            frame = frame.filter(column(name) < float(value))
        if job == COUNT:
            return frame.select(pl.len()).collect().item()
        if columns is not None:
            frame = frame.select([column(name).alias(name.replace(".", "_")) for name in columns])
        return frame.collect().to_arrow()

    return {POLARS: run}


def checked(calls: dict[str, Callable[[], Any]]) -> Contenders:
    """The contenders whose result is DuckDB's, or PyArrow's: the number of rows, and the sum of the ids."""

    def digest(found: Any) -> tuple[int, int | None]:
        if isinstance(found, int):
            return found, None
        return found.num_rows, pc.sum(found["id"]).as_py()

    expected = digest(calls[DUCKDB if DUCKDB in calls else PYARROW]())
    if OURS in calls:
        assert digest(calls[OURS]()) == expected, (digest(calls[OURS]()), expected)

    def once(call: Callable[[], Any]) -> Callable[[], None]:
        found = call()

        def check() -> None:
            assert digest(found) == expected, (digest(found), expected)

        return check

    result: Contenders = {}
    for name, call in calls.items():
        try:
            same = digest(call()) == expected
        except Exception as error:
            print(f"{name}: left out, {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
            continue
        if same:
            result[name] = partial(once, call)
        else:
            print(f"{name}: left out, its rows differ", file=sys.stderr)
    return result


def peak(folder: Path, shape: str, job: str, contender: str, share: float) -> float:
    """The peak memory in MB that a contender's job adds to a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.bench_shapes",
        "--folder",
        str(folder),
        "--share",
        str(share),
    ]
    run = subprocess.run(
        [*command, "--one", shape, job, contender], capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def memory_kb(name: str) -> int:
    """A figure of this process's memory by its name in Linux's ``/proc/self/status``."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench/shapes"))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="jobs whose name holds this")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    folder = options.folder.resolve()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with ExitStack() as stack:
        engines = {
            "delta": stack.enter_context(duckdb_with_delta()),
            "iceberg": stack.enter_context(duckdb_with_iceberg()),
        }
        for engine in engines.values():
            engine.execute("SET threads = 1")

        def prepared(shape: str, job: str) -> dict[str, Callable[[], Any]]:
            kind = "delta" if SHAPES[shape].format == "delta" else "iceberg"
            return calls_of(engines[kind], table_of(folder, shape, options.share), SHAPES[shape], job)

        if options.one:
            shape, job, contender = options.one
            call = prepared(shape, job)[contender]
            Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
            before = memory_kb("VmRSS")
            kept = call()
            print((memory_kb("VmHWM") - before) / 1024)
            del kept
            return
        found, behind = {}, []
        for shape, job in ((shape, job) for shape in SHAPES for job in JOBS):
            name = f"{TIMES}{shape}, {job}"
            if not all(word in name for word in options.only):
                continue
            those = checked(prepared(shape, job))
            if options.memory:
                peaks = {one: {"peak_mb": peak(folder, shape, job, one, options.share)} for one in those}
                print(f"{MEMORY}{shape}, {job}: {peaks}", file=sys.stderr, flush=True)
                found[f"{MEMORY}{shape}, {job}"] = {"contenders": peaks}
                continue
            result = measure_job(name, those, options.rounds, dict.fromkeys(set(those) - {OURS}, 1.0))
            found[name] = result
            behind += [
                (verdict["ratio"], name, verdict["peer"])
                for verdict in result["targets"]
                if not verdict["met"]
            ]
    report(found, options.into)
    for ratio, name, peer in sorted(behind):
        print(f"behind: {name}: {ratio:.2f}x {peer}", file=sys.stderr)


if __name__ == "__main__":
    main()
