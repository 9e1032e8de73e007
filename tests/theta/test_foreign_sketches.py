"""Theta sketches of other libraries: `datasketches` agrees, Alpha sketches are read, invalid bytes are refused."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from puffin_fast import arrow, errors
from puffin_fast.theta import ThetaSketch
from tests.kit import theta_oracle as oracle
from tests.kit.cases import each
from tests.kit.damage import flipped_bits

datasketches = pytest.importorskip("datasketches")

SMALL = ThetaSketch.from_arrow(range(40)).to_bytes()
LARGE = ThetaSketch.from_arrow(np.arange(50_000)).to_bytes()
EMPTY, SINGLE = ThetaSketch().to_bytes(), ThetaSketch.from_arrow([7]).to_bytes()


def theirs(sketch: ThetaSketch) -> Any:
    return datasketches.compact_theta_sketch.deserialize(sketch.to_bytes())


def of_values(start: int, stop: int) -> Any:
    """Their sketch of integers, which they hash as 8 bytes."""
    sketch = datasketches.update_theta_sketch(12)
    for value in range(start, stop):
        sketch.update(value)
    return sketch


@pytest.mark.parametrize("n", [0, 1, 2, 4096, 4097, 100_000])
def test_datasketches_reads_and_estimates_ours(n: int) -> None:
    ours = ThetaSketch.from_arrow(np.arange(n))
    read = theirs(ours)
    assert read.get_estimate() == pytest.approx(ours.estimate, rel=1e-12)
    assert (
        list(read)
        == np.frombuffer(ours.to_bytes(), "<u8")[len(ours.to_bytes()) // 8 - len(list(read)) :].tolist()
    )
    for n_std_dev in (1, 2, 3):
        lower, _, upper = ours.bounds(n_std_dev)
        assert read.get_lower_bound(n_std_dev) == pytest.approx(lower, rel=1e-3, abs=2)
        assert read.get_upper_bound(n_std_dev) == pytest.approx(upper, rel=1e-3, abs=2)


@each("retained", [0, 1, 5, 50, 120, 121, 400])
@each("theta", [0.9, 0.1, 1e-4, 1e-9])
def test_bounds_of_few_hashes_agree_with_datasketches(retained: int, theta: float) -> None:
    limit = int(theta * 2**63)
    hashes = [1 + i * (limit // 500) for i in range(retained)]
    ours = ThetaSketch.from_bytes(oracle.serialise(limit, hashes))
    for n_std_dev in (1, 2, 3):
        lower, _, upper = ours.bounds(n_std_dev)
        assert theirs(ours).get_lower_bound(n_std_dev) == pytest.approx(lower, rel=2e-3, abs=3)
        assert theirs(ours).get_upper_bound(n_std_dev) == pytest.approx(upper, rel=2e-3, abs=3)


@pytest.mark.parametrize("n", [0, 1, 2, 4096, 30_000])
def test_we_read_and_unite_theirs(n: int) -> None:
    foreign = of_values(0, n).compact()
    read = ThetaSketch.from_bytes(foreign.serialize())
    assert read.estimate == pytest.approx(foreign.get_estimate(), rel=1e-12)
    assert read == ThetaSketch.from_bytes(oracle.serialise(foreign.theta64, sorted(foreign)))
    other = ThetaSketch.from_arrow(np.arange(20_000, 60_000))
    union = datasketches.theta_union(12)
    union.update(foreign)
    union.update(theirs(other))
    assert (read | other).estimate == pytest.approx(union.get_result().get_estimate(), rel=1e-12)


def test_intersections_differences_and_jaccard_agree_with_datasketches() -> None:
    a, b = ThetaSketch.from_arrow(np.arange(60_000)), ThetaSketch.from_arrow(np.arange(30_000, 90_000))
    intersection = datasketches.theta_intersection()
    intersection.update(theirs(a))
    intersection.update(theirs(b))
    assert sorted(intersection.get_result()) == sorted(theirs(a & b))
    assert sorted(datasketches.theta_a_not_b().compute(theirs(a), theirs(b))) == sorted(theirs(a - b))
    found = datasketches.theta_jaccard_similarity.jaccard(theirs(a), theirs(b))
    assert a.jaccard(b) == pytest.approx(found, rel=1e-2)


def reordered(data: bytes) -> bytes:
    """An ordered sketch of ours as libraries write it from the table of an updatable sketch."""
    start = 8 * data[0]
    hashes = np.frombuffer(data, "<u8", offset=start)
    return change(data[:start] + hashes[np.argsort(hashes % 97)].tobytes(), 5, bytes([data[5] & ~16]))


@pytest.mark.parametrize("n", [0, 1, 2, 4096, 5000, 40_000])
def test_unordered_sketches_are_read_as_ordered_ones(n: int) -> None:
    sketch, more = of_values(0, n), of_values(n // 2, n + 20_000)
    union, both = datasketches.theta_union(12), datasketches.theta_intersection()
    for one in (sketch, more):
        union.update(one)
        both.update(one)
    forms = [
        sketch.compact,
        union.get_result,
        both.get_result,
        lambda ordered: datasketches.theta_a_not_b().compute(more, sketch, ordered),
    ]
    for form in forms:
        foreign = form(False)
        read, ordered = (ThetaSketch.from_bytes(form(flag).serialize()) for flag in (False, True))
        assert read == ordered, foreign
        assert read.estimate == pytest.approx(foreign.get_estimate(), rel=1e-12)
        assert read == ThetaSketch.from_bytes(oracle.serialise(foreign.theta64, sorted(foreign)))
        assert ThetaSketch.from_bytes(read.to_bytes()) == read
        assert arrow.theta_union([foreign.serialize(), SMALL]) == arrow.theta_union(
            [ordered.to_bytes(), SMALL]
        )
    ours = ThetaSketch.from_arrow(np.arange(n))
    assert ThetaSketch.from_bytes(reordered(ours.to_bytes())) == ours


@pytest.mark.parametrize("longs", [2, 3])
def test_an_empty_sketch_may_have_a_long_preamble(longs: int) -> None:
    theta = struct.pack("<Q", 1 << 62) * (longs - 2)
    data = struct.pack("<BBBxxBHif", longs, 3, 3, 0x1E, 0, 0, 1.0) + theta
    assert datasketches.compact_theta_sketch.deserialize(data).is_empty()
    assert ThetaSketch.from_bytes(data).to_bytes() == EMPTY


@pytest.mark.parametrize("n", [10, 4096, 5000, 30_000])
def test_alpha_sketches_are_read_and_unite_with_ours(n: int) -> None:
    """Java's raw sketches have another theta and number of hashes."""
    hashes = [oracle.murmur(struct.pack("<q", value)) for value in range(n)]
    alpha = ThetaSketch.from_bytes(oracle.alpha(hashes))
    lower, _, upper = alpha.bounds(3)
    assert lower <= n <= upper
    more = ThetaSketch.from_arrow(np.arange(n, n + 50_000))
    lower, _, upper = (alpha | more).bounds(3)
    assert lower <= n + 50_000 <= upper


@pytest.mark.parametrize("n", [2, 3, 7, 8, 9, 4095, 4096, 5000, 40_000])
def test_compressed_sketches_are_read(n: int) -> None:
    plain = ThetaSketch.from_arrow(np.arange(n))
    hashes = np.frombuffer(plain.to_bytes(), "<u8")[2 if n <= 4096 else 3 :].tolist()
    theta = oracle.MOST if n <= 4096 else int.from_bytes(plain.to_bytes()[16:24], "little")
    data = oracle.compressed(theta, hashes)
    assert ThetaSketch.from_bytes(data).to_bytes() == plain.to_bytes()
    for length in range(0, len(data), max(1, len(data) // 50)):
        with pytest.raises(errors.CorruptDataError):
            ThetaSketch.from_bytes(data[:length])
    for at in range(min(len(data), 40)):
        try:
            sketch = ThetaSketch.from_bytes(change(data, at, bytes([data[at] ^ 0x11])))
        except (errors.CorruptDataError, errors.UnsupportedError):
            continue
        assert (sketch | sketch).to_bytes() == (sketch | ThetaSketch()).to_bytes()


def of_version(version: int, plain: bytes) -> bytes:
    """A sketch as the library wrote it years ago."""
    longs = plain[0]
    if longs == 1:
        count, hashes = len(plain) // 8 - 1, plain[8:]
    else:
        count, hashes = int.from_bytes(plain[8:12], "little"), plain[8 * longs :]
    theta = plain[16:24] if longs == 3 else struct.pack("<q", oracle.MOST)
    if version == 1:
        return struct.pack("<BBBxxxHi4x", 3, 1, 3, 0, count) + theta + hashes
    seed = b"\xcc\x93"
    if count == 0 and longs == 1:
        return struct.pack("<BBBxxB", 1, 2, 3, 0) + seed
    head = struct.pack("<BBBxxB", max(longs, 2), 2, 3, 0) + seed + struct.pack("<i4x", count)
    return head + (theta if longs == 3 else b"") + hashes


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("n", [0, 1, 2, 4096, 5000, 40_000])
def test_old_serial_versions_are_read_as_datasketches_reads_them(n: int, version: int) -> None:
    plain = ThetaSketch.from_arrow(np.arange(n)).to_bytes()
    data = of_version(version, plain)
    found, known = ThetaSketch.from_bytes(data), datasketches.compact_theta_sketch.deserialize(data)
    assert found.to_bytes() == plain
    assert (found.estimate, len(list(known))) == (known.get_estimate(), known.num_retained)
    assert arrow.theta_union([data, SMALL]) == arrow.theta_union([plain, SMALL])
    for length in range(0, len(data), max(1, len(data) // 50)):
        with pytest.raises(errors.CorruptDataError):
            ThetaSketch.from_bytes(data[:length])
    if version == 2:
        with pytest.raises(errors.UnsupportedError, match="seed hash"):
            ThetaSketch.from_bytes(change(data, 6, b"\1\2"))


def change(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def swapped(data: bytes, at: int) -> bytes:
    return data[:at] + data[at + 8 : at + 16] + data[at : at + 8] + data[at + 16 :]


HOSTILE: dict[str, tuple[Callable[[], bytes], type[Exception], str]] = {
    "nothing": (lambda: b"", errors.CorruptDataError, "preamble: expected 8 bytes, found 0"),
    "version": (lambda: change(SMALL, 1, b"\5"), errors.UnsupportedError, "serial version 5; expected 1 to 4"),
    "old_version": (lambda: change(SMALL, 1, b"\1"), errors.CorruptDataError, "longs of serial version 1: expected 3"),
    "family": (lambda: change(SMALL, 2, b"\2"), errors.UnsupportedError, r"family 2 \(QuickSelect\)"),
    "seed": (lambda: change(SMALL, 6, b"\1\2"), errors.UnsupportedError, "seed hash 0x0201; expected 0x93cc"),
    "big_endian": (lambda: change(SMALL, 5, b"\x1b"), errors.CorruptDataError, "offset 5: theta sketch: flags"),
    "not_compact": (lambda: change(SMALL, 5, b"\x12"), errors.CorruptDataError, "flags"),
    "repeated_unordered": (
        lambda: change(change(SMALL, 24, SMALL[64:72]), 5, b"\x0a"), errors.CorruptDataError,
        "offset 64: theta sketch: hashes: expected distinct ones",
    ),
    "zero_unordered": (
        lambda: change(change(SMALL, 40, bytes(8)), 5, b"\x0a"), errors.CorruptDataError,
        "offset 40: theta sketch: hash: expected 1",
    ),
    "preamble_longs": (lambda: change(SMALL, 0, b"\5"), errors.CorruptDataError, "preamble longs"),
    "empty_with_hashes": (lambda: change(SMALL, 5, b"\x1e"), errors.CorruptDataError, "hashes of an empty sketch"),
    "empty_and_more": (lambda: EMPTY + b"\0", errors.CorruptDataError, "an empty sketch"),
    "count_above": (lambda: change(SMALL, 8, struct.pack("<i", 2**31 - 1)), errors.CorruptDataError, "count of hashes"),
    "count_below": (lambda: change(SMALL, 8, struct.pack("<i", 39)), errors.CorruptDataError, "expected 40 by size"),
    "count_negative": (lambda: change(SMALL, 8, struct.pack("<i", -1)), errors.CorruptDataError, "count of hashes"),
    "unsorted": (lambda: swapped(SMALL, 64), errors.CorruptDataError, "offset 72: theta sketch: order of hashes"),
    "repeated": (lambda: change(SMALL, 24, SMALL[16:24]), errors.CorruptDataError, "order of hashes"),
    "zero": (lambda: change(SMALL, 16, bytes(8)), errors.CorruptDataError, "offset 16: theta sketch: hash"),
    "above_theta": (lambda: change(LARGE, 16, LARGE[-8:]), errors.CorruptDataError, "theta sketch: hash: expected 1"),
    "theta_zero": (lambda: change(LARGE, 16, bytes(8)), errors.CorruptDataError, "offset 16: theta sketch: theta"),
    "theta_too_large": (lambda: change(LARGE, 16, b"\xff" * 8), errors.CorruptDataError, "theta"),
}  # fmt: skip


@each("name", HOSTILE)
def test_hostile_sketches_are_refused_by_name_and_place(name: str) -> None:
    make, kind, message = HOSTILE[name]
    with pytest.raises(kind, match=message):
        ThetaSketch.from_bytes(make())
    with pytest.raises(kind, match=r"sketches: row 1: .*" + message):
        arrow.theta_union([SMALL, make()])


@pytest.mark.parametrize("data", [SMALL, reordered(SMALL), LARGE, SINGLE, EMPTY], ids=len)
def test_truncated_sketches_are_refused(data: bytes) -> None:
    for length in [*range(min(len(data), 400)), len(data) - 8, len(data) - 1]:
        with pytest.raises((errors.CorruptDataError, errors.UnsupportedError)):
            ThetaSketch.from_bytes(data[:length])


@pytest.mark.parametrize("data", [SMALL, reordered(SMALL), SINGLE, EMPTY], ids=len)
def test_a_flipped_bit_is_refused_or_gives_a_sketch_that_works(data: bytes) -> None:
    for flipped in flipped_bits(data):
        try:
            sketch = ThetaSketch.from_bytes(flipped)
        except (errors.CorruptDataError, errors.UnsupportedError):
            continue
        again = ThetaSketch.from_bytes(sketch.to_bytes())
        assert again == sketch
        assert (sketch | sketch).estimate == sketch.estimate


def test_memory_is_bounded_by_the_bytes() -> None:
    data = change(SMALL, 8, struct.pack("<i", 2**31 - 1))
    tracemalloc.start()
    try:
        with pytest.raises(errors.CorruptDataError):
            ThetaSketch.from_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 16
    finally:
        tracemalloc.stop()


def test_any_buffer_is_read(as_buffer: Callable[[bytes], Any]) -> None:
    assert ThetaSketch.from_bytes(as_buffer(SMALL)).to_bytes() == SMALL
