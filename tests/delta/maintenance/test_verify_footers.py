"""`verify` compares the number of rows of a Parquet file with those of its row groups."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, errors


@pytest.mark.parametrize("n_rows", [0, 39])
def test_a_footer_with_other_rows_than_its_row_groups_is_a_problem(n_rows: int, tmp_path: Path) -> None:
    path = tmp_path / "t"
    delta.create_table(path, pa.schema([("id", pa.int64())]))
    delta.append(path, pa.table({"id": range(40)}))
    (file,) = path.glob("*.parquet")
    pq.write_table(pq.read_table(file), file, row_group_size=20)
    data, stated = file.read_bytes(), b"\x16\x50\x19\x2c"  # 40 rows, two row groups
    assert data.count(stated) == 1
    file.write_bytes(data.replace(stated, bytes([0x16, 2 * n_rows, 0x19, 0x2C])))
    log = path / "_delta_log" / f"{1:020}.json"
    text = re.sub(r'"size":\d+', f'"size":{len(data)}', log.read_text())
    log.write_text(text.replace('numRecords\\":40', f'numRecords\\":{n_rows}'))
    assert pq.ParquetFile(file).metadata.num_rows == n_rows
    (problem,) = delta.verify(path)
    assert problem.kind == "corrupt"
    assert f"rows of all row groups: expected {n_rows}, found 40" in problem.message
    with pytest.raises(errors.CorruptDataError, match="rows of all row groups"):
        delta.scan(path).to_arrow()
