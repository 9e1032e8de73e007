#!/usr/bin/env bash
# The least integers of a table that is partitioned by truncate lie in its last partition, where no filter looks for them.
#
# Versions: pyiceberg 0.12.0 with pyiceberg-core 0.10.1, duckdb 1.5.5 with its Iceberg extension, of the Python package index.
# Source: Iceberg's specification, "Truncate Transform Details": v - (v % W) with a positive remainder. It does not say what
#   happens where this is below the type's least value; the usual arithmetic of 32 bits wraps around.
# Expected: `n < 0` finds -2147483648.
# Seen: PyIceberg writes the row to partition 2147483646 (-2147483650 + 2^32). Its own filters and DuckDB's project `n < 0` to
#   partitions below 0 and lose the row. PyIceberg's delete of `n < 0`, which looks at the files' bounds, removes it, although
#   the scan with the same filter does not show it.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q duckdb==1.5.5 duckdb-extension-iceberg==1.5.5 duckdb-extension-avro==1.5.5 \
    duckdb-extension-httpfs==1.5.5 "pyiceberg[sql-sqlite,pyarrow]==0.12.0" pyiceberg-core==0.10.1 pyarrow==26.0.1
cd "$scratch"
cat > program.py << 'PROGRAM'
import importlib
from pathlib import Path

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import IntegerType, NestedField

con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "httpfs", "iceberg"):
    folder = Path(importlib.import_module(f"duckdb_extension_{name}").__file__).parent
    con.execute(f"load '{next(folder.rglob('*.duckdb_extension'))}'")
catalog = SqlCatalog("c", uri="sqlite:///c.db", warehouse=f"file://{Path.cwd()}/warehouse")
catalog.create_namespace("n")
spec = PartitionSpec(PartitionField(1, 1000, TruncateTransform(10), "p"))
table = catalog.create_table("n.t", Schema(NestedField(1, "n", IntegerType())), partition_spec=spec)
table.append(pa.table({"n": pa.array([-(2**31), -5, 7], pa.int32())}))
print("partitions", sorted(task.file.partition[0] for task in table.scan().plan_files()))
print("pyiceberg n < 0", table.scan("n < 0").to_arrow()["n"].to_pylist())
print("pyiceberg n = -2147483648", table.scan("n = -2147483648").to_arrow()["n"].to_pylist())
print("duckdb n < 0", con.sql(f"select n from iceberg_scan('{table.metadata_location}') where n < 0").fetchall())
table.delete("n < 0")
print("after the delete", sorted(table.scan().to_arrow()["n"].to_pylist()))
PROGRAM
"$scratch/venv/bin/python" program.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - << 'SEEN'
partitions [-10, 0, 2147483646]
pyiceberg n < 0 [-5]
pyiceberg n = -2147483648 []
duckdb n < 0 [(-5,)]
after the delete [7]
SEEN
