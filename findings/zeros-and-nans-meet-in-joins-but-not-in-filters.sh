#!/usr/bin/env bash
# Whether -0.0 and 0.0, or two NaNs, are the same key depends on the library, and in one library on the operation.
#
# Versions: pyarrow 25.0.1, duckdb 1.5.5, polars 2.1.0, datafusion 54.1.0, daft 0.7.26, of the Python package index.
# Source: IEEE 754 (the zeros are equal, no NaN is); the SQL engines' own rule that NaN equals NaN. Iceberg's specification
#   compares the values of equality deletes by SQL's and says nothing of zeros.
# Expected: each library has one equality, so that `x = 0.0`, `x in (0.0)`, a join and a grouping tell the same rows.
# Seen: of the rows -0.0, 0.0, NaN and 1.0, PyArrow's `equal` finds both zeros, its `is_in` and its join one, and its
#   grouping keeps two. DataFusion and daft find one zero with every operation, `=` included. DuckDB and Polars match both zeros
#   and the NaN of the other sign in joins. A delete by keys removes one row, two or three of the four, by who joins.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q duckdb==1.5.5 datafusion==54.1.0 daft==0.7.26 polars==2.1.0 pyarrow==25.0.1
cd "$scratch"
cat > program.py << 'PROGRAM'
import daft
import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

rows = pa.table({"x": [-0.0, 0.0, float("nan"), 1.0]})
keys = pa.table({"x": [0.0, -float("nan")]})


def say(name, equal, joined, groups):
    print(f"{name}: x = 0.0 {equal}, joined with the keys {joined}, groups {groups}")


say("pyarrow", pc.sum(pc.equal(rows["x"], 0.0)), rows.join(keys, "x", join_type="inner").num_rows, rows.group_by("x").aggregate([]).num_rows)
print("pyarrow: is_in", pc.sum(pc.is_in(rows["x"], keys["x"])))
left, right = pl.from_arrow(rows), pl.from_arrow(keys)
say("polars", left.filter(pl.col("x") == 0.0).height, left.join(right, on="x").height, left.group_by("x").len().height)
con, context = duckdb.connect(), datafusion.SessionContext()
for name, table in {"r": rows, "k": keys}.items():
    con.register(name, table)
    con.sql(f"create table t_{name} as select * from {name}")
    context.register_record_batches(f"t_{name}", [table.to_batches()])
queries = ["select count(*) n from t_r where x = 0.0", "select count(*) n from t_r join t_k on t_r.x = t_k.x", "select count(distinct x) n from t_r"]
say("duckdb", *(con.sql(query).fetchone()[0] for query in queries))
say("datafusion", *(context.sql(query).to_pydict()["n"][0] for query in queries))
left, right = daft.from_arrow(rows), daft.from_arrow(keys)
say("daft", left.where(daft.col("x") == 0.0).count_rows(), left.join(right, on="x").count_rows(), left.distinct().count_rows())
PROGRAM
"$scratch/venv/bin/python" program.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - << 'SEEN'
pyarrow: x = 0.0 2, joined with the keys 1, groups 4
pyarrow: is_in 1
polars: x = 0.0 2, joined with the keys 3, groups 3
duckdb: x = 0.0 2, joined with the keys 3, groups 3
datafusion: x = 0.0 1, joined with the keys 1, groups 4
daft: x = 0.0 1, joined with the keys 1, groups 4
SEEN
