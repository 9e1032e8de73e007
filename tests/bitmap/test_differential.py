"""Other implementations accept the same bytes as this package; the tests explain each exception."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from puffin_fast import dv, errors
from puffin_fast.bitmap import PositionBitmap
from tests.java import GOLDEN, Java, Verdict, positions_of
from tests.kit import oracle, strategies
from tests.kit.cases import each
from tests.kit.damage import flipped_bits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRICTER_THAN_CROARING = {
    "key too large": "CRoaring knows no limit of Iceberg's positions",
    "position too large": "CRoaring knows no limit of Iceberg's positions",
    "offset": "CRoaring reads containers in sequence and skips the offset table",
    "cardinality": "CRoaring counts a run container from its runs and skips the declared cardinality",
    "trailing bytes": "CRoaring stops after the last bitmap",
}
"""The oracle's refusals for which pyroaring may accept, and why."""

STRICTER_THAN_JAVA = {
    "position too large": "Java checks the key only",
    "container keys": "Java trusts the order of containers",
    "offset": "Java reads containers in sequence and skips the offset table",
    "array unsorted or repeated": "Java trusts the contents of containers",
    "cardinality": "Java trusts the contents of containers",
    "runs overlap or are out of order": "Java trusts the contents of containers",
    "run passes 65535": "Java trusts the contents of containers",
    "trailing bytes": "Java's bitmap reader stops after the last bitmap",
}
"""The same for `RoaringPositionBitmap`; what it then holds may be wrong, which is why we refuse."""


def ours(data: bytes) -> list[int] | None:
    try:
        found: list[int] = PositionBitmap.from_bytes(data).to_numpy().tolist()
        return found
    except errors.CorruptDataError:
        return None


def refusal(data: bytes) -> str | None:
    """The oracle's reason, None when it accepts."""
    try:
        oracle.decode(data)
    except oracle.RefusedError as error:
        return str(error)
    return None


def croaring(data: bytes) -> list[int] | None:
    try:
        return list(BitMap64.deserialize(data))
    except (ValueError, IndexError):  # an IndexError for no bytes at all
        return None


def runs_touch(data: bytes) -> bool:
    """Whether two runs that could be one stand in these bytes: Java and we read them, CRoaring refuses."""
    reader = oracle.Reader(data)
    oracle.decode64(reader)
    return reader.runs_touch


def agree(data: bytes, theirs: list[int] | None, reasons: dict[str, str]) -> None:
    """Same verdict and positions, or the one that refuses has a reason that is written down."""
    found, reason = ours(data), refusal(data)
    assert (found is None) == (reason is not None), reason
    if found is not None:
        assert theirs == found or (theirs is None and runs_touch(data))
    elif theirs is not None:
        assert reason in reasons, f"refused for {reason!r}, accepted by the peer"


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Bytes of a small set with a few of them changed, cut out or put in."""
    data = bytearray(oracle.encode(draw(strategies.small_position_sets()).tolist()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        change = draw(st.sampled_from(["set", "flip", "cut", "put", "copy"]))
        if change == "set" and data:
            data[at] = draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF]))
        elif change == "flip" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif change == "cut":
            del data[at : at + draw(st.integers(1, 8))]
        elif change == "put":
            data[at:at] = draw(st.binary(min_size=1, max_size=4))
        else:
            data[at:at] = data[at : at + draw(st.integers(1, 16))]
    return bytes(data)


@given(mutated())
def test_mutated_bytes_get_pyroarings_verdict_or_a_reason(data: bytes) -> None:
    agree(data, croaring(data), STRICTER_THAN_CROARING)


@each("name", strategies.MALFORMED)
def test_malformed_bytes_get_pyroarings_verdict_or_a_reason(name: str) -> None:
    data = strategies.MALFORMED[name]()
    agree(data, croaring(data), STRICTER_THAN_CROARING)


@each("name", strategies.ACCEPTED)
def test_unusual_bytes_are_read_as_pyroaring_reads_them(name: str) -> None:
    data, _ = strategies.ACCEPTED[name]
    agree(data, croaring(data), {})


@given(strategies.position_sets())
def test_croaring_reads_what_we_write(positions: strategies.Positions) -> None:
    assert croaring(PositionBitmap.from_positions(positions).to_bytes()) == positions.tolist()


@given(strategies.position_sets())
def test_we_read_croarings_other_container_choices(positions: strategies.Positions) -> None:
    """Without `run_optimize` CRoaring keeps arrays and bitmaps where runs are smaller."""
    peer = BitMap64(positions)
    np.testing.assert_array_equal(PositionBitmap.from_bytes(peer.serialize()).to_numpy(), positions)


# Java ----------------------------------------------------------------------------------------------------

PROVENANCE = json.loads((GOLDEN / "provenance.json").read_text())["files"]


@pytest.mark.parametrize("name", sorted(PROVENANCE))
def test_javas_golden_blobs_are_read(name: str) -> None:
    entry, blob = PROVENANCE[name], (GOLDEN / f"{name}.bin").read_bytes()
    assert hashlib.sha256(blob).hexdigest() == entry["sha256"]
    positions = positions_of(entry["ranges"])
    bitmap = dv.iceberg.decode(blob, cardinality=entry["cardinality"])
    assert bitmap.to_numpy().tolist() == positions
    written = dv.iceberg.encode(PositionBitmap.from_positions(positions))
    assert (written == blob) == entry["canonical"]
    assert dv.iceberg.encode(bitmap) == written


@pytest.fixture(scope="module")
def java(iceberg_spark: SparkSession) -> Java:
    """Iceberg's classes in the session's JVM."""
    return Java(iceberg_spark.sparkContext._jvm)


@pytest.mark.jar
@pytest.mark.spark
def test_java_writes_the_golden_blobs_still(java: Java) -> None:
    for name, entry in PROVENANCE.items():
        if entry["cardinality"] < 6_000:
            assert java.encode(positions_of(entry["ranges"])) == (GOLDEN / f"{name}.bin").read_bytes()


@pytest.mark.jar
@pytest.mark.spark
def test_java_writes_the_same_bytes_for_random_sets(java: Java) -> None:
    rng = np.random.default_rng(1)
    for n, spread in ((1, 10), (50, 60), (700, 800), (700, 1 << 20), (900, 1 << 33), (5_000, 9_000)):
        positions = np.unique(rng.integers(0, spread, n))
        gapless = set(range(int(positions[-1] >> 32) + 1)) == {int(p) >> 32 for p in positions}
        blob = dv.iceberg.encode(PositionBitmap.from_positions(positions))
        if gapless:
            assert java.encode(positions.tolist()) == blob
        assert java.decode_blob(blob, len(positions)).positions == positions.tolist()


@pytest.mark.jar
@pytest.mark.spark
def test_java_reads_gaps_left_out(java: Java) -> None:
    positions = [5, (3 << 32) + 7, (9 << 32) + 1]
    blob = dv.iceberg.encode(PositionBitmap.from_positions(positions))
    assert java.decode_blob(blob, 3).positions == positions


@pytest.mark.jar
@pytest.mark.spark
def test_malformed_bytes_get_javas_verdict_or_a_reason(java: Java) -> None:
    for name, build in strategies.MALFORMED.items():
        if name != "position_over_the_maximum":  # Java allocates an array as long as the largest key
            agree_with_java(build(), java.decode(build()))


@pytest.mark.jar
@pytest.mark.spark
@pytest.mark.slow
def test_mutated_bytes_get_javas_verdict_or_a_reason(java: Java) -> None:
    data = oracle.encode([0, 5, 70_000, *range(131_072, 131_100), (1 << 32) + 3])
    for altered in flipped_bits(data, step=7):
        reason = refusal(altered)
        keys = [int.from_bytes(altered[8:12], "little")]
        if reason is None:
            keys += [p >> 32 for p in oracle.decode(altered)]
        if max(keys) < 1 << 10:  # Java allocates an array as long as the largest key
            agree_with_java(altered, java.decode(altered))


def agree_with_java(data: bytes, verdict: Verdict) -> None:
    """As `agree`; Java's iteration over containers that it did not check may give anything."""
    found, reason = ours(data), refusal(data)
    if found is not None:
        assert verdict.positions == found, verdict.reason
    elif verdict.positions is not None:
        assert reason in STRICTER_THAN_JAVA, f"refused for {reason!r}, accepted by Java"


@pytest.mark.jar
@pytest.mark.spark
def test_java_refuses_the_frames_that_we_refuse(java: Java) -> None:
    lenient = {"blob_length_zero"}
    for name, build in strategies.MALFORMED_BLOBS.items():
        if name.startswith("blob_") and name not in lenient:
            assert java.decode_blob(build(), 4).positions is None, name
