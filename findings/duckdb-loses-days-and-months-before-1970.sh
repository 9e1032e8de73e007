#!/usr/bin/env bash
# DuckDB prunes Iceberg partitions of days and months as if the time before 1970 were rounded toward 1970.
#
# Versions: duckdb 1.5.5 with its Iceberg extension 1.5.5, pyiceberg 0.12.0 (which writes the tables), of the Python package
#   index.
# Source: Iceberg's specification, "Partition Transforms": day and month are numbers since 1970-01-01 that are rounded down, so
#   that 1969-12-31 23:00 is of day -1 and of month -1.
# Expected: a filter for a time finds its row, however the table is partitioned.
# Seen: in tables by day and by month, DuckDB looks for 1969-12-31 23:00 in day 0 and month 0 and finds nothing; midnight of a
#   day before 1970, which needs no rounding, is found. Tables by hour and by year, of the same rows, are right, and so is a
#   scan without a filter.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q duckdb==1.5.5 duckdb-extension-iceberg==1.5.5 duckdb-extension-avro==1.5.5 \
    duckdb-extension-httpfs==1.5.5 "pyiceberg[sql-sqlite,pyarrow]==0.12.0" pyiceberg-core==0.10.1 pyarrow==26.0.1
cd "$scratch"
cat > program.py << 'PROGRAM'
import importlib
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, YearTransform
from pyiceberg.types import NestedField, TimestampType

con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "httpfs", "iceberg"):
    folder = Path(importlib.import_module(f"duckdb_extension_{name}").__file__).parent
    con.execute(f"load '{next(folder.rglob('*.duckdb_extension'))}'")
catalog = SqlCatalog("c", uri="sqlite:///c.db", warehouse=f"file://{Path.cwd()}/warehouse")
catalog.create_namespace("n")
times = [datetime(1969, 12, 31, 23), datetime(1968, 6, 5, 4), datetime(1969, 12, 1), datetime(1970, 1, 1, 1)]
for transform in (HourTransform(), DayTransform(), MonthTransform(), YearTransform()):
    schema = Schema(NestedField(1, "t", TimestampType()))
    spec = PartitionSpec(PartitionField(1, 1000, transform, "p"))
    table = catalog.create_table(f"n.{transform}", schema, partition_spec=spec)
    table.append(pa.table({"t": pa.array(times, pa.timestamp("us"))}))
    source = f"iceberg_scan('{table.metadata_location}')"
    counts = [con.sql(f"select count(*) from {source} where t = timestamp '{time}'").fetchone()[0] for time in times]
    print(transform, "of all", con.sql(f"select count(t) from {source}").fetchone()[0], "by a filter", counts)
PROGRAM
"$scratch/venv/bin/python" program.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - << 'SEEN'
hour of all 4 by a filter [1, 1, 1, 1]
day of all 4 by a filter [0, 0, 1, 1]
month of all 4 by a filter [0, 0, 1, 1]
year of all 4 by a filter [1, 1, 1, 1]
SEEN
