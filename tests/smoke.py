"""What an installed package does without its extras: ``python -I tests/smoke.py``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import puffin_fast as pf

assert "site-packages" in pf.__file__, pf.__file__
heavy = {"pyspark", "pyiceberg", "pandas", "datasketches"} & set(sys.modules)
assert not heavy, heavy

positions = np.array([5, 0, 70000, 2**32 + 3, 5])
bitmap = pf.PositionBitmap.from_positions(positions)
blob = pf.dv.iceberg.encode(bitmap)
assert blob.hex() == (
    "00000044d1d33964020000000000000000000000"
    "3a300000020000000000010001000000180000001c00000000000500"
    "7011010000003a3000000100000000000000100000000300d6569e96"
), blob.hex()
assert pf.dv.iceberg.decode(blob) == bitmap
assert pf.arrow.cardinality(pf.arrow.encode([positions])).to_pylist() == [4]

with tempfile.TemporaryDirectory() as scratch:
    path = str(Path(scratch, "v.puffin"))
    pf.write_vectors(path, [("data.parquet", bitmap)])
    assert pf.read_vectors(path) == {"data.parquet": bitmap}
    command = [str(Path(sys.executable).with_name("puffin-fast")), "inspect", path, "--output", "json"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert said["blobs"][0]["properties"]["cardinality"] == "4", said

for use, extra in ((lambda: pf.iceberg.delete, "iceberg"), (lambda: pf.spark.encode_deletes(None), "spark")):
    said = ""
    try:
        use()
    except pf.errors.MissingExtraError as error:
        said = str(error)
    assert f"puffin-fast[{extra}]" in said, f"extra {extra}: {said or 'not missing'}"
print("the wheel works in", sys.prefix)
