#!/usr/bin/env bash
# DuckDB prunes Iceberg partitions of truncated texts by grapheme clusters, where the specification counts code points.
#
# Versions: duckdb 1.5.5 with its Iceberg extension 1.5.5, pyiceberg 0.12.0 (which writes the table), of the Python package
#   index.
# Source: Iceberg's specification, "Truncate Transform Details": a text is cut to its first L Unicode code points.
# Expected: a filter for a text finds its row.
# Seen: an e with a combining accent is one cluster and two code points. In a table by truncate[1], its row is in partition "e";
#   DuckDB looks for it in the partition of the whole cluster and finds nothing. The same letter as one code point, a letter
#   beyond the first plane, and a scan without a filter are right.
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
from pyiceberg.types import NestedField, StringType

con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "httpfs", "iceberg"):
    folder = Path(importlib.import_module(f"duckdb_extension_{name}").__file__).parent
    con.execute(f"load '{next(folder.rglob('*.duckdb_extension'))}'")
catalog = SqlCatalog("c", uri="sqlite:///c.db", warehouse=f"file://{Path.cwd()}/warehouse")
catalog.create_namespace("n")
texts = ["e\u0301", "\u00e9", "\U0001f600b", "e"]
spec = PartitionSpec(PartitionField(1, 1000, TruncateTransform(1), "p"))
table = catalog.create_table("n.t", Schema(NestedField(1, "s", StringType())), partition_spec=spec)
table.append(pa.table({"s": texts}))
source = f"iceberg_scan('{table.metadata_location}')"
print("of all", con.sql(f"select count(s) from {source}").fetchone()[0])
for text in texts:
    print([f"U+{ord(letter):04X}" for letter in text], con.sql(f"select count(*) from {source} where s = '{text}'").fetchone()[0])
PROGRAM
"$scratch/venv/bin/python" program.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - << 'SEEN'
of all 4
['U+0065', 'U+0301'] 0
['U+00E9'] 1
['U+1F600', 'U+0062'] 1
['U+0065'] 1
SEEN
