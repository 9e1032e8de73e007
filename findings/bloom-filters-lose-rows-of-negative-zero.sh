#!/usr/bin/env bash
# Three readers lose rows of -0.0 that a Bloom filter in a Parquet file covers.
#
# Versions: duckdb 1.5.5, datafusion 54.1.0, daft 0.7.26, polars 2.1.0, of the Python package index.
# Source: Parquet's Bloom filters hash the plain bytes of a value, and -0.0 has other bytes than 0.0. For bounds, Parquet's
#   definition of statistics tells readers that a zero may have either sign. The page on Bloom filters says nothing of zeros.
# Expected: `x = 0.0` finds the 1,000 rows of -0.0, because the two are equal in SQL and in IEEE 754.
# Seen: DuckDB writes a Bloom filter for each column with a dictionary, hashes the value's bytes, and then finds none of its
#   own rows; neither do DataFusion and daft. Polars, which reads no Bloom filter here, finds all. The bounds are right
#   (-0.0 to 1.5). NaN has many bytes, too: rows of a NaN with the sign bit are not found by `x = 'NaN'`.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q duckdb==1.5.5 datafusion==54.1.0 daft==0.7.26 polars==2.1.0 numpy==2.4.6 pyarrow==25.0.1
cd "$scratch"
cat > program.py << 'PROGRAM'
import struct

import daft
import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

con = duckdb.connect()
con.sql("create table t as select i, case when i % 2 = 0 then -0.0::double else 1.5 end x from range(2000) r(i)")
con.sql("copy t to 't.parquet'")
context = datafusion.SessionContext()
context.register_parquet("t", "t.parquet")
print("duckdb, table", con.sql("select count(*) from t where x = 0.0").fetchone()[0])
print("duckdb, file", con.sql("select count(*) from 't.parquet' where x = 0.0").fetchone()[0])
print("datafusion", context.sql("select count(*) n from t where x = 0.0").to_pydict()["n"][0])
print("daft", daft.read_parquet("t.parquet").where(daft.col("x") == 0.0).count_rows())
print("polars", pl.scan_parquet("t.parquet").filter(pl.col("x") == 0.0).select(pl.len()).collect().item())

negative = np.frombuffer(struct.pack("<Q", 0xFFF8000000000000), "f8")[0]
rows = pa.table({"x": np.array([1.5, negative] * 1000)})
con.sql("create table n as select x from rows")
con.sql("copy n to 'n.parquet'")
print("duckdb, NaN in a table", con.sql("select count(*) from n where x = 'NaN'::double").fetchone()[0])
print("duckdb, NaN in a file", con.sql("select count(*) from 'n.parquet' where x = 'NaN'::double").fetchone()[0])
PROGRAM
"$scratch/venv/bin/python" program.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - << 'SEEN'
duckdb, table 1000
duckdb, file 0
datafusion 0
daft 0
polars 1000
duckdb, NaN in a table 1000
duckdb, NaN in a file 0
SEEN
