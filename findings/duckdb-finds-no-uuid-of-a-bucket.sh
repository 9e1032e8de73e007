#!/usr/bin/env bash
# DuckDB finds no row by UUID in an Iceberg table that is partitioned by buckets of it.
#
# Versions: duckdb 1.5.5 with its Iceberg extension 1.5.5, pyiceberg 0.12.0 (which writes the table), of the Python package
#   index.
# Source: Iceberg's specification, "Appendix B: 32-bit Hash Requirements": the hash of a UUID is that of its 16 bytes in
#   big-endian order; f79c3e09-677c-4bbd-a479-3f349cb785e7 hashes to 1488055340, and PyIceberg agrees.
# Expected: a filter for a UUID finds its row, as it does without partitions.
# Seen: DuckDB looks in other buckets. Of 64 UUIDs in 16 buckets, it finds those few for which both bucket numbers agree by
#   chance. Buckets of texts, in the same kind of table, are right.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q duckdb==1.5.5 duckdb-extension-iceberg==1.5.5 duckdb-extension-avro==1.5.5 \
    duckdb-extension-httpfs==1.5.5 "pyiceberg[sql-sqlite,pyarrow]==0.12.0" pyiceberg-core==0.10.1 pyarrow==26.0.1
cd "$scratch"
cat > program.py << 'PROGRAM'
import importlib
import uuid
from pathlib import Path

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import NestedField, StringType, UUIDType

con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "httpfs", "iceberg"):
    folder = Path(importlib.import_module(f"duckdb_extension_{name}").__file__).parent
    con.execute(f"load '{next(folder.rglob('*.duckdb_extension'))}'")
catalog = SqlCatalog("c", uri="sqlite:///c.db", warehouse=f"file://{Path.cwd()}/warehouse")
catalog.create_namespace("n")
ids = [uuid.uuid5(uuid.NAMESPACE_DNS, str(number)) for number in range(64)]
print("hash", BucketTransform(2**31 - 1).transform(UUIDType())(uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")))
spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(16), "p"))
for type, values in {UUIDType(): [one.bytes for one in ids], StringType(): [str(one) for one in ids]}.items():
    table = catalog.create_table(f"n.t_{type}", Schema(NestedField(1, "v", type)), partition_spec=spec)
    table.append(pa.table({"v": pa.array(values, pa.binary(16) if type == UUIDType() else pa.string())}))
    source = f"iceberg_scan('{table.metadata_location}')"
    counts = [con.sql(f"select count(*) from {source} where v = '{one}'").fetchone()[0] for one in ids]
    print(type, "of all", con.sql(f"select count(v) from {source}").fetchone()[0], "by a filter", sum(counts))
PROGRAM
"$scratch/venv/bin/python" program.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - << 'SEEN'
hash 1488055340
uuid of all 64 by a filter 3
string of all 64 by a filter 64
SEEN
