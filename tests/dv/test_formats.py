"""Deletion vectors of Delta, Paimon, Lance and the Mumbling draft: bytes of other writers, inline forms, conversion."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast import dv, errors
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import _frame
from puffin_fast.dv.conversion import FORMATS
from tests.kit import oracle, oracle_formats, strategies
from tests.kit.cases import each
from tests.kit.damage import flipped_bits

GOLDEN = Path(__file__).parents[1] / "golden"
REFERENCE = bytes.fromhex(
    "00000044d1d339640200000000000000000000003a300000020000000000010001000000180000001c000000000005007011"
    "010000003a3000000100000000000000100000000300d6569e96"
)
REFERENCE_V1 = bytes.fromhex(
    "000000225e43f2d03a300000020000000000010001000000180000001c00000000000500701127825e10"
)
POSITIONS = [0, 5, 70_000, (1 << 32) + 3]


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / name / "expected.json").read_text())
    return found


def positions_of(bitmap: PositionBitmap) -> list[int]:
    found: list[int] = bitmap.to_numpy().tolist()
    return found


# Foreign bytes ---------------------------------------------------------------------------------------------


def test_one_set_has_the_same_record_in_iceberg_delta_and_paimon() -> None:
    bitmap = PositionBitmap.from_positions(POSITIONS)
    assert dv.iceberg.encode(bitmap) == dv.delta.encode(bitmap) == dv.paimon.encode(bitmap) == REFERENCE
    assert dv.paimon.encode(PositionBitmap.from_positions(POSITIONS[:3]), version=1) == REFERENCE_V1


def delta_vectors() -> list[tuple[str, dict[str, Any], list[int]]]:
    found = []
    for table, answer in expected("delta").items():
        if "deleted_ranges" in answer:
            deleted = sorted(
                {p for start, stop, step in answer["deleted_ranges"] for p in range(start, stop, step)}
            )
            found.append((table, answer["descriptor"], deleted))
            continue
        found.extend((table, file["descriptor"], file["deleted"]) for file in answer["files"].values())
    return found


@each(("table", "descriptor", "deleted"), delta_vectors())
def test_vectors_that_delta_spark_wrote_are_read(
    table: str, descriptor: dict[str, Any], deleted: list[int]
) -> None:
    text, size, cardinality = (descriptor[k] for k in ("pathOrInlineDv", "sizeInBytes", "cardinality"))
    if descriptor["storageType"] == "i":
        bitmap = dv.delta.decode_inline(text, size, cardinality=cardinality)
        assert dv.delta.encode_inline(bitmap) == (text, size)
    else:
        uuid = dv.delta.z85_decode(text[-20:]).hex()
        (file,) = (f for f in (GOLDEN / "delta" / table).rglob("*.bin") if uuid in f.name.replace("-", ""))
        data = file.read_bytes()
        offset, length = descriptor["offset"], size + dv.delta.FRAME_BYTES
        assert (offset, length) in list(_frame.spans(data))
        record = data[offset : offset + length]
        bitmap = dv.delta.decode(record, cardinality=cardinality, path=str(file), offset=offset)
        if table != "hand_native":
            assert dv.delta.encode(bitmap) == record
    assert positions_of(bitmap) == deleted


def paimon_vectors() -> list[tuple[str, dict[str, Any]]]:
    return [
        (table, file) for table, answer in expected("paimon").items() for file in answer["files"].values()
    ]


@each(("table", "file"), paimon_vectors())
def test_vectors_that_paimon_wrote_are_read(table: str, file: dict[str, Any]) -> None:
    if "index_file" not in file:
        assert not file["deleted"]
        return
    (path,) = (GOLDEN / "paimon").rglob(Path(file["index_file"]).name)
    data = path.read_bytes()
    spans = dict(_frame.spans(data))
    record = data[file["offset"] : file["offset"] + spans[file["offset"]]]
    assert file["length"] == len(record) - (8 if file["version"] == 1 else 0)
    assert dv.paimon.version_of(record) == file["version"]
    bitmap = dv.paimon.decode(record, cardinality=len(file["deleted"]))
    assert positions_of(bitmap) == file["deleted"]
    assert dv.paimon.encode(bitmap, version=file["version"]) == record


def test_deletion_files_that_lance_wrote_are_read() -> None:
    (answer,) = expected("lance").values()
    for name, file in answer["files"].items():
        data = (GOLDEN / "lance" / "array_and_bitmap.lance" / name).read_bytes()
        bitmap = dv.lance.decode(data, cardinality=file["cardinality"])
        rule = range(file["rows"])
        wanted = file.get("deleted") or [row for row in rule if (row + file["id_starts_at"]) % 15 != 0]
        assert positions_of(bitmap) == wanted
        assert dv.lance.decode(dv.lance.encode(bitmap)) == bitmap
        assert (dv.lance.encode(bitmap)[:6] == b"ARROW1") == name.endswith(".arrow")


# Delta's other forms ---------------------------------------------------------------------------------------


@given(strategies.small_position_sets())
def test_inline_vectors_come_back(positions: strategies.Positions) -> None:
    bitmap = PositionBitmap.from_positions(positions)
    text, size = dv.delta.encode_inline(bitmap)
    assert len(text) % 5 == 0
    assert dv.delta.decode_inline(text, size, cardinality=len(bitmap)) == bitmap


@given(strategies.small_position_sets())
def test_native_records_are_read_and_written_portable(positions: strategies.Positions) -> None:
    positions = positions[positions < (8 << 32)]
    record = oracle_formats.record(oracle_formats.encode_native(positions.tolist()), dv.delta.NATIVE_MAGIC)
    bitmap = dv.delta.decode(record, cardinality=len(positions))
    assert positions_of(bitmap) == positions.tolist()
    assert dv.delta.encode(bitmap) == oracle.encode_blob(positions.tolist())


def test_every_flipped_bit_of_a_native_payload_gets_the_oracles_verdict() -> None:
    payload = oracle_formats.encode_native([*POSITIONS, *range(100, 140)])
    for altered in flipped_bits(payload):
        record = oracle_formats.record(altered, dv.delta.NATIVE_MAGIC)
        try:
            wanted = oracle_formats.decode_delta(record)
        except oracle.RefusedError:
            with pytest.raises(errors.CorruptDataError):
                dv.delta.decode(record)
        else:
            assert positions_of(dv.delta.decode(record)) == wanted


def test_the_z85_example_of_its_specification() -> None:
    data = bytes.fromhex("864fd26fb559f75b")
    assert dv.delta.z85_encode(data) == "HelloWorld"
    assert dv.delta.z85_decode("HelloWorld") == data
    with pytest.raises(errors.InvalidInputError, match="multiple of 4"):
        dv.delta.z85_encode(b"abc")


@pytest.mark.parametrize(
    "text",
    [
        "Hell",
        "Hello World",
        'Hel"o',
        "Hel\\o",
        "Héllo",
        "#####",
        "####0",
        "##zzz",
        "#zzzz",
        "###35",
        "#0000Hello",
        "Hel~o",
    ],
)
def test_what_is_no_z85_is_refused(text: str) -> None:
    with pytest.raises(errors.CorruptDataError, match="Z85"):
        dv.delta.z85_decode(text, path="table: inline")


@given(st.binary(min_size=1, max_size=9))
def test_a_short_last_group_of_deltas_kernel_is_read(data: bytes) -> None:
    whole, last = data[: len(data) // 4 * 4], data[len(data) // 4 * 4 :]
    text = dv.delta.z85_encode(whole)
    if last:
        missing = 4 - len(last)
        text += "#" * missing + dv.delta.z85_encode(bytes(missing) + last)[missing:]
    assert dv.delta.z85_decode(text) == data


def test_an_inline_vector_that_deltas_kernel_wrote_is_read() -> None:
    bitmap = dv.delta.decode_inline("^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093", 34, cardinality=1)
    assert bitmap.to_numpy().tolist() == [3]


@pytest.mark.parametrize("size", [-1, 0, 40, 47, 53, 1 << 40])
def test_a_wrong_size_of_an_inline_vector_is_refused(size: int) -> None:
    text, right = dv.delta.encode_inline(PositionBitmap.from_positions([1, 2, 3]))
    assert size != right
    with pytest.raises(errors.CorruptDataError):
        dv.delta.decode_inline(text, size)


def test_an_inline_vector_of_another_magic_or_cardinality_is_refused() -> None:
    payload = oracle.encode([1, 2])
    text = dv.delta.z85_encode(b"\x64\x39\xd3\xd1" + payload + bytes(-len(payload) % 4))
    with pytest.raises(errors.CorruptDataError, match="magic"):
        dv.delta.decode_inline(text, 4 + len(payload))
    text, size = dv.delta.encode_inline(PositionBitmap.from_positions([1, 2, 3]))
    with pytest.raises(errors.CorruptDataError, match="cardinality"):
        dv.delta.decode_inline(text, size, cardinality=4)


def test_the_protocols_own_inline_example_is_refused_as_it_is_no_payload() -> None:
    with pytest.raises(errors.CorruptDataError):
        dv.delta.decode_inline("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, cardinality=6)


# Files of records ------------------------------------------------------------------------------------------


def test_a_file_of_records_is_its_version_and_records() -> None:
    records = [oracle.encode_blob(p) for p in ([1], [], range(100))]
    data = b"\1" + b"".join(records)
    assert [data[at : at + n] for at, n in _frame.spans(data)] == records
    assert list(_frame.spans(b"\1")) == []


def test_torn_files_of_records_are_refused() -> None:
    record = oracle.encode_blob([1, 2, 3])
    data = b"\1" + record + record
    for n_bytes in range(len(data)):
        if n_bytes in (1, 1 + len(record)):
            continue
        with pytest.raises(errors.CorruptDataError) as caught:
            list(_frame.spans(data[:n_bytes], "a.bin"))
        assert caught.value.path == "a.bin"
    with pytest.raises(errors.UnsupportedError, match="version 2"):
        list(_frame.spans(b"\2" + record))


# Paimon's versions -----------------------------------------------------------------------------------------


# Lance's Arrow form ----------------------------------------------------------------------------------------


def arrow_file(
    *columns: pa.Array, names: tuple[str, ...] = ("row_id",), compression: str | None = None
) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(list(columns), names=list(names))
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_the_arrow_form_is_read_in_any_order_and_compression(compression: str | None) -> None:
    rows = np.random.default_rng(1).permutation(4_000).astype(np.uint32)
    data = arrow_file(pa.array(rows), compression=compression)
    assert positions_of(dv.lance.decode(data, cardinality=4_000)) == list(range(4_000))


@given(st.sets(st.integers(0, dv.lance.MAX_POSITION), max_size=50))
def test_the_arrow_form_comes_back(rows: set[int]) -> None:
    bitmap = PositionBitmap.from_positions(sorted(rows))
    for form in ("arrow", "bin"):
        assert dv.lance.decode(dv.lance.encode(bitmap, form=form), cardinality=len(rows)) == bitmap


@pytest.mark.parametrize(
    "data",
    [
        arrow_file(pa.array([1, 2], pa.int32())),
        arrow_file(pa.array([1, None], pa.uint32())),
        arrow_file(pa.array([1, 2], pa.uint32()), names=("rows",)),
        arrow_file(pa.array([1], pa.uint32()), pa.array([1], pa.uint32()), names=("row_id", "more")),
        arrow_file(names=()),
        b"ARROW1",
        b"ARROW1\0\0" + bytes(100),
    ],
    ids=["type", "null", "name", "columns", "no_columns", "magic_only", "zeros"],
)
def test_arrow_files_of_another_shape_are_refused(data: bytes) -> None:
    with pytest.raises(errors.CorruptDataError):
        dv.lance.decode(data, path="f.arrow")


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_truncated_and_altered_arrow_files_are_refused_or_read(compression: str | None) -> None:
    data = arrow_file(pa.array(range(300), pa.uint32()), compression=compression)
    for n_bytes in range(len(data)):
        with pytest.raises((errors.CorruptDataError, errors.LimitExceededError)):
            dv.lance.decode(data[:n_bytes])
    for at in range(len(data)):
        altered = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        try:
            dv.lance.decode(altered)
        except (errors.CorruptDataError, errors.LimitExceededError):
            continue


# Mumbling --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoded", "values"),
    [
        ("000000", [0] * 256),
        ("000005", [5] * 51),
        ("02000618", [6, 7, 8]),
        ("3201060901e0", [6, 34, 8, 7]),
        ("8002000407fffe", [0, 0, 0, 0, 255, 0, 0, 254]),
    ],
)
def test_the_drafts_examples_of_packed_descriptors(encoded: str, values: list[int]) -> None:
    assert oracle_formats.encode_chunk(values).hex() == encoded
    assert oracle_formats.decode_chunk(oracle.Reader(bytes.fromhex(encoded)), len(values)) == values
    assert dv.mumbling._pack(np.array(values, np.uint8)).hex() == encoded


@given(st.lists(st.integers(0, 255), min_size=1, max_size=600))
def test_descriptors_are_packed_as_the_oracle_packs_them(values: list[int]) -> None:
    chunks = [values[at : at + 256] for at in range(0, len(values), 256)]
    packed = dv.mumbling._pack(np.array(values, np.uint8))
    assert packed == b"".join(map(oracle_formats.encode_chunk, chunks))


# From format to format -------------------------------------------------------------------------------------


@given(strategies.low_position_sets(2))
def test_every_format_becomes_every_other(positions: strategies.Positions) -> None:
    bitmap = PositionBitmap.from_positions(positions)
    blob = dv.iceberg.encode(bitmap)
    for source in FORMATS:
        made = dv.convert(blob, "iceberg", source, cardinality=len(bitmap))
        for target in FORMATS:
            assert dv.convert(dv.convert(made, source, target), target, "iceberg") == blob


def test_where_the_bytes_agree_they_are_handed_on() -> None:
    for source in ("iceberg", "delta", "paimon"):
        for target in ("iceberg", "delta", "paimon"):
            assert dv.convert(REFERENCE, source, target, cardinality=4) is REFERENCE


def test_bytes_are_checked_where_they_are_handed_on() -> None:
    with pytest.raises(errors.CorruptDataError, match="CRC-32"):
        dv.convert(REFERENCE[:-1] + b"\0", "delta", "iceberg")
    with pytest.raises(errors.CorruptDataError, match="cardinality"):
        dv.convert(REFERENCE, "delta", "iceberg", cardinality=5)
    with pytest.raises(errors.InvalidInputError, match="expected one of iceberg, delta"):
        dv.convert(REFERENCE, "delta", "hudi")


def test_a_native_record_becomes_a_portable_one() -> None:
    native = oracle_formats.record(oracle_formats.encode_native(POSITIONS), dv.delta.NATIVE_MAGIC)
    assert dv.convert(native, "delta", "iceberg") == REFERENCE
    assert dv.convert(native, "delta", "delta") == REFERENCE


@pytest.mark.parametrize(
    ("position", "encode", "said"),
    [
        (1 << 31, partial(dv.paimon.encode, version=1), r"version 1.*2147483647.*2147483648"),
        (1 << 32, dv.lance.encode, "4294967295"),
        (2_097_152, dv.mumbling.encode, "2097151"),
        *(
            (
                POSITIONS[-1],
                lambda bitmap, to=to: dv.convert(dv.iceberg.encode(bitmap), "iceberg", to),
                "found 4294967299",
            )
            for to in ("paimon-v1", "lance", "mumbling")
        ),
    ],
)
def test_a_position_past_what_a_format_holds_is_refused(
    position: int, encode: Callable[[PositionBitmap], bytes], said: str
) -> None:
    with pytest.raises(errors.LimitExceededError, match=said):
        encode(PositionBitmap.from_positions([position]))


def test_versions_and_forms_that_do_not_exist_are_refused() -> None:
    bitmap = PositionBitmap.from_positions([1])
    with pytest.raises(errors.InvalidInputError, match="expected 1 or 2"):
        dv.paimon.encode(bitmap, version=3)
    with pytest.raises(errors.InvalidInputError, match="form"):
        dv.lance.encode(bitmap, form="parquet")
