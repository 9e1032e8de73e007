#!/usr/bin/env bash
# The same rows, in memory and in a Parquet file: four engines find a NaN in the one and not in the other.
#
# Versions: duckdb 1.5.5, datafusion 54.1.0, daft 0.7.26, pyarrow 25.0.1, polars 2.1.0, deltalake 1.6.6, of the Python
#   package index.
# Source: Parquet's statistics leave NaN out of the least and the greatest value. DuckDB, DataFusion, daft and Polars order
#   NaN after all numbers, so that NaN > 5 is true.
# Expected: a row group whose greatest number is 3 may hold a NaN, so that bounds cannot exclude it for `x > 5`.
# Seen: DuckDB, DataFusion and daft skip the row group and lose the row. PyArrow, for which NaN > 5 is false, loses it for the
#   negation `not (x <= 5)`. DuckDB finds no row for `x = 'NaN'`. Both SQL engines take `max(x)` from the bounds: 13, where the
#   answer over rows is NaN. deltalake does the same with the statistics in its own log. Only Polars answers alike.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q duckdb==1.5.5 datafusion==54.1.0 daft==0.7.26 pyarrow==25.0.1 polars==2.1.0 deltalake==1.6.6
cd "$scratch"
cat > program.py << 'PROGRAM'
import daft
import datafusion
import deltalake
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

rows = pa.table({"id": range(8), "x": [1.0, 2.0, 3.0, float("nan"), 10.0, 11.0, 12.0, 13.0]})
pq.write_table(rows, "t.parquet", row_group_size=4)
con, context = duckdb.connect(), datafusion.SessionContext()
con.sql("create table t as select * from rows")
context.register_parquet("p", "t.parquet")
context.register_record_batches("t", [rows.to_batches()])


def of(table):
    return sorted(table["id"].to_pylist() if isinstance(table, pa.Table) else table["id"])


def duck(where, source):
    return sorted(row[0] for row in con.sql(f"select id from {source} where {where}").fetchall())


def fusion(where, source):
    return of(context.sql(f"select id from {source} where {where}").to_pydict())


for where in ("x > 5", "x = 'NaN'::double"):
    print("duckdb", where, duck(where, "t"), duck(where, "'t.parquet'"))
print("datafusion x > 5", fusion("x > 5", "t"), fusion("x > 5", "p"))
large = daft.col("x") > 5
print("daft x > 5", of(daft.from_arrow(rows).where(large).to_pydict()), of(daft.read_parquet("t.parquet").where(large).to_pydict()))
large = ~(pc.field("x") <= 5)
print("pyarrow not (x <= 5)", of(rows.filter(large)), of(ds.dataset("t.parquet").to_table(filter=large)))
large = pl.col("x") > 5
print("polars x > 5", of(pl.from_arrow(rows).filter(large).to_arrow()), of(pl.scan_parquet("t.parquet").filter(large).collect().to_arrow()))
print("duckdb max", [con.sql(f"select max(x) from {source}").fetchone()[0] for source in ("t", "'t.parquet'")])
print("datafusion max", [context.sql(f"select max(x) m from {source}").to_pydict()["m"][0] for source in ("t", "p")])
deltalake.write_deltalake("delta", rows.slice(0, 4))
query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable("delta"))
print("deltalake x > 5", of(pa.table(query.execute("select id from t where x > 5").read_all())))
PROGRAM
"$scratch/venv/bin/python" program.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - << 'SEEN'
duckdb x > 5 [3, 4, 5, 6, 7] [4, 5, 6, 7]
duckdb x = 'NaN'::double [3] []
datafusion x > 5 [3, 4, 5, 6, 7] [4, 5, 6, 7]
daft x > 5 [3, 4, 5, 6, 7] [4, 5, 6, 7]
pyarrow not (x <= 5) [3, 4, 5, 6, 7] [4, 5, 6, 7]
polars x > 5 [3, 4, 5, 6, 7] [3, 4, 5, 6, 7]
duckdb max [nan, 13.0]
datafusion max [nan, 13.0]
deltalake x > 5 []
SEEN
