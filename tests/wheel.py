"""Tests a built wheel: ``python tests/wheel.py DIST SCRATCH`` installs it in a fresh environment outside the
checkout, with nothing but its declared dependencies, and runs what is below ``SMOKE`` there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

SMOKE = """
import json, subprocess, sys, tempfile
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
    "00000044d1d33964020000000000000000000000" "3a300000020000000000010001000000180000001c00000000000500"
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
    try:
        use()
    except pf.errors.MissingExtraError as error:
        assert f"puffin-fast[{extra}]" in str(error), error
    else:
        raise AssertionError(f"it works without the extra {extra}")
print("the wheel works in", sys.prefix)
"""


def main(dist: Path, scratch: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    tags = wheel.stem.split("-", 2)[2]
    assert tags.startswith("cp311-abi3-"), f"expected an abi3 wheel for Python 3.11 and later, found {tags}"
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith(".abi3.so") for name in names), names
    unexpected = [name for name in names if not name.startswith(("puffin_fast", "pyspark_puffin"))]
    assert not unexpected, f"expected only the package in the wheel, found {unexpected}"
    assert not [name for name in names if name.endswith((".pyx", ".c"))], "sources in the wheel"

    venv.create(scratch, clear=True, with_pip=True)
    python = scratch.resolve() / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", wheel.resolve()], check=True)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as elsewhere:
        subprocess.run([python, "-c", SMOKE], cwd=elsewhere, env=clean, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
