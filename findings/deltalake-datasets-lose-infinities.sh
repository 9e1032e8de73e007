#!/usr/bin/env bash
# A filter on deltalake's dataset loses the rows of infinities that the same library's queries find.
#
# Version: deltalake 1.6.6 with pyarrow 26.0.1, of the Python package index.
# Source: Delta's protocol, "Per-file Statistics"; JSON has no infinity, so that deltalake writes null for a bound that is one.
# Expected: a bound that is null says nothing, and the file is read.
# Seen: `to_pyarrow_dataset` makes of it that no value lies beyond the other bound's side: `x > 100` and `z < -5` return
#   nothing. The library's QueryBuilder, on the same table, returns the row, and so does the dataset without a filter.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q deltalake==1.6.6 pyarrow==26.0.1
cd "$scratch"
cat > program.py << 'PROGRAM'
import json
from math import inf
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds

deltalake.write_deltalake("t", pa.table({"id": [1, 2, 3], "x": [1.0, inf, 2.0], "z": [1.0, -inf, 2.0]}))
actions = [json.loads(line) for line in Path("t/_delta_log/00000000000000000000.json").read_text().splitlines()]
statistics = [json.loads(action["add"]["stats"]) for action in actions if "add" in action][0]
print("bounds of x", statistics["minValues"]["x"], statistics["maxValues"]["x"])
table = deltalake.DeltaTable("t")
dataset, query = table.to_pyarrow_dataset(), deltalake.QueryBuilder().register("t", table)
for where, filter in {"x > 100": ds.field("x") > 100, "z < -5": ds.field("z") < -5}.items():
    found = pa.table(query.execute(f"select id from t where {where}").read_all())["id"].to_pylist()
    rows = dataset.to_table().filter(filter)["id"].to_pylist()
    print(where, "query", found, "dataset", dataset.to_table(filter=filter)["id"].to_pylist(), "its rows, filtered", rows)
PROGRAM
"$scratch/venv/bin/python" program.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - << 'SEEN'
bounds of x 1.0 None
x > 100 query [2] dataset [] its rows, filtered [2]
z < -5 query [2] dataset [] its rows, filtered [2]
SEEN
