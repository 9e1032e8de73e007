"""One bank of checks over every codec and every kind of buffer."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from puffin_fast import errors
from puffin_fast.bitmap import PositionBitmap
from tests.dv.codecs import CODECS, Codec
from tests.kit import oracle, strategies
from tests.kit.cases import each
from tests.kit.damage import flipped_bits

SMALL = [
    [],
    [0],
    [0, 5, 70_000, (1 << 32) + 3],
    list(range(10, 40)),
    [1, 3, 5, *range(65_536, 65_600), 131_072, 196_609],
    [key << 32 for key in range(4)],
    [oracle.MAX_POSITION],
]
"""Sets with so few bytes that each byte can be changed."""


def fitting(codec: Codec, positions: Iterable[int]) -> list[int]:
    """The positions that a codec can hold."""
    return [position for position in positions if position <= codec.maximum]


def positions_of(bitmap: PositionBitmap) -> list[int]:
    found: list[int] = bitmap.to_numpy().tolist()
    return found


def refusal(codec: Codec, data: Any) -> errors.CorruptDataError:
    """Returns the error of a codec, after a check of its attributes."""
    with pytest.raises(errors.CorruptDataError) as caught:
        codec.decode(data)
    error = caught.value
    assert error.what
    assert error.offset is not None
    assert 0 <= error.offset <= len(data)
    assert f"offset {error.offset}" in str(error)
    return error


# Round trips and parity -------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@strategies.costly
@given(strategies.position_sets())
def test_encode_agrees_with_the_oracle(codec: Codec, positions: strategies.Positions) -> None:
    positions = positions[positions <= codec.maximum]
    assert codec.encode(PositionBitmap.from_positions(positions)) == codec.oracle_encode(positions.tolist())


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@given(strategies.position_sets())
def test_decode_inverts_encode(codec: Codec, positions: strategies.Positions) -> None:
    positions = positions[positions <= codec.maximum]
    read = codec.decode(codec.encode(PositionBitmap.from_positions(positions)))
    np.testing.assert_array_equal(read.to_numpy(), positions)
    assert read == PositionBitmap.from_positions(positions)


def test_every_kind_of_buffer_is_read(codec: Codec, as_buffer: Callable[[bytes], Any]) -> None:
    for every in [*SMALL, list(range(0, 20_000, 3))]:
        positions = fitting(codec, every)
        assert positions_of(codec.decode(as_buffer(codec.oracle_encode(positions)))) == positions


def test_every_kind_of_buffer_is_checked(codec: Codec, as_buffer: Callable[[bytes], Any]) -> None:
    for name in ("array_unsorted", "run_passes_65535", "bitmap_truncated", "trailing_byte"):
        refusal(codec, as_buffer(codec.malformed[name]()))


def test_empty_buffers_are_refused(codec: Codec) -> None:
    for empty in (b"", bytearray(), memoryview(b""), np.empty(0, np.uint8)):
        refusal(codec, empty)


def test_inputs_are_never_mutated(codec: Codec) -> None:
    for positions in [*SMALL, list(range(0, 20_000, 3))]:
        data = bytearray(codec.oracle_encode(fitting(codec, positions)))
        before = bytes(data)
        read = codec.decode(data)
        _ = read | read, read - read, read.to_numpy(), read.mask(100), read.contains(np.array([1]))
        assert data == before


def test_a_bitmap_does_not_change_with_the_buffer_it_was_read_from(codec: Codec) -> None:
    positions = fitting(codec, [0, 5, 70_000, (1 << 32) + 3])
    data = bytearray(codec.oracle_encode(positions))
    read = codec.decode(data)
    data[:] = bytes(len(data))
    assert positions_of(read) == positions


def test_objects_without_a_buffer_are_refused(codec: Codec) -> None:
    wrong: list[Any] = ["text", 5, None, [1, 2], object(), {"a": 1}]
    for value in wrong:
        with pytest.raises((errors.InvalidInputError, TypeError)):
            codec.decode(value)


def test_buffers_of_other_items_are_refused_whole(codec: Codec) -> None:
    for value in (np.arange(4.0), np.zeros((2, 16), np.uint8)):
        with pytest.raises((errors.PuffinFastError, TypeError)):
            codec.decode(value)


# Malformed bytes -----------------------------------------------------------------------------------------


@each(
    ("codec", "name"),
    [(codec, name) for codec in CODECS for name in codec.malformed],
    ids=lambda value: getattr(value, "name", value),
)
def test_malformed_bytes_are_refused(codec: Codec, name: str) -> None:
    error = refusal(codec, codec.malformed[name]())
    assert error.expected is not None
    assert error.found is not None


@pytest.mark.parametrize(
    "names",
    [
        (
            "wrong_cookie_0",
            "container_count_over_65536",
            "container_keys_unsorted",
            "keys_unsorted",
            "key_2_to_the_31",
            "offset_1_off_by_1",
            "array_unsorted",
            "bitmap_cardinality_too_large",
            "runs_overlap",
            "run_passes_65535",
            "run_cardinality_too_small",
            "trailing_byte",
            "array_truncated",
        ),
        ("blob_length_too_small", "blob_magic_of_paimon", "blob_checksum_wrong"),
    ],
    ids=["bitmap", "frame"],
)
def test_each_refusal_has_its_own_message(names: tuple[str, ...]) -> None:
    (codec,) = (codec for codec in CODECS if codec.name == "iceberg")
    said = {name: refusal(codec, codec.malformed[name]()).what for name in names}
    assert len(set(said.values())) == len(names), said


def test_a_refusal_carries_path_and_place_in_the_file(codec: Codec) -> None:
    if codec.name == "bitmap":
        return
    decode: Any = codec.decode
    for name, build in codec.malformed.items():
        here = refusal(codec, build())
        with pytest.raises(errors.CorruptDataError) as caught:
            decode(build(), path="s3://bucket/dv.puffin", offset=1000)
        assert caught.value.path == "s3://bucket/dv.puffin"
        assert here.offset is not None
        assert caught.value.offset == here.offset + 1000, name
        assert str(caught.value).startswith(f"s3://bucket/dv.puffin: offset {here.offset + 1000}: ")


def test_a_refusal_survives_pickling(codec: Codec) -> None:
    error = refusal(codec, codec.malformed["array_unsorted"]())
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_every_truncation_is_refused(codec: Codec) -> None:
    for positions in [*SMALL, [*range(0, 8194, 2), *range(70_000, 70_100)]]:
        data = codec.oracle_encode(fitting(codec, positions))
        for n_bytes in range(len(data)):
            refusal(codec, data[:n_bytes])


def test_every_extension_is_refused(codec: Codec) -> None:
    for positions in SMALL:
        for more in (b"\0", b"\xff", bytes(4), bytes(8), bytes(100)):
            refusal(codec, codec.oracle_encode(fitting(codec, positions)) + more)


def test_every_flipped_bit_gets_the_oracles_verdict(codec: Codec) -> None:
    for positions in SMALL:
        data = codec.oracle_encode(fitting(codec, positions))
        for altered in flipped_bits(data):
            agree_with_the_oracle(codec, altered)


def agree_with_the_oracle(codec: Codec, data: bytes) -> None:
    """Both refuse, or both read the same positions."""
    try:
        expected = codec.oracle_decode(data)
    except oracle.RefusedError:
        refusal(codec, data)
    else:
        assert positions_of(codec.decode(data)) == expected


def test_every_altered_byte_gets_the_oracles_verdict() -> None:
    (codec,) = (codec for codec in CODECS if codec.name == "bitmap")
    data = codec.oracle_encode([0, 5, 70_000, *range(131_072, 131_172), (1 << 32) + 3])
    for at in range(len(data)):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFF):
            agree_with_the_oracle(codec, data[:at] + bytes([value]) + data[at + 1 :])


# Non-canonical bytes -------------------------------------------------------------------------------------


@each(
    ("codec", "name"),
    [(codec, name) for codec in CODECS for name in codec.accepted],
    ids=lambda value: getattr(value, "name", value),
)
def test_non_canonical_bytes_are_read(codec: Codec, name: str) -> None:
    data, held = codec.accepted[name]
    read = codec.decode(data)
    assert positions_of(read) == held
    assert len(read) == len(held)
    canonical = PositionBitmap.from_positions(held)
    assert read == canonical
    assert hash(read) == hash(canonical)
    np.testing.assert_array_equal(read.contains(np.array(held, np.uint64)), True)
    assert read | canonical == canonical
    assert read & canonical == canonical
    assert not (read - canonical)
    assert not (read ^ canonical)
    assert bool(read) == bool(held)
    if held:
        assert (read.min(), read.max()) == (held[0], held[-1])
        assert read.rank(held[-1]) == len(held)
        assert read.select(0) == held[0]


NEVER_WRITTEN = (
    "nothing",
    "empty_bitmap_alone",
    "empty_bitmap_at_the_largest_key",
    "gaps_as_java_writes_them",
    "empty_bitmap_last",
    "runs_larger_than_an_array",
    "runs_larger_than_a_bitmap",
    "run_cookie_without_runs",
    "run_cookie_without_runs_and_offsets",
    "runs_that_touch",
    "run_flags_padded_with_ones",
)


@each(
    ("codec", "name"),
    [(codec, name) for codec in CODECS for name in NEVER_WRITTEN if name in codec.accepted],
    ids=lambda value: getattr(value, "name", value),
)
def test_non_canonical_bytes_are_never_written(codec: Codec, name: str) -> None:
    data, held = codec.accepted[name]
    read = codec.decode(data)
    canonical = codec.oracle_encode(held)
    nothing = PositionBitmap.from_positions([])
    assert codec.encode(read) == canonical
    assert codec.encode(read | nothing) == canonical
    assert codec.encode(read - nothing) == canonical
    assert codec.encode(read ^ nothing) == canonical
    assert codec.encode(read & read) == canonical
    assert codec.encode(PositionBitmap.union_all([read])) == canonical


def test_gaps_between_containers_cost_only_their_bytes() -> None:
    gaps = [(key, strategies.EMPTY32) for key in range(50_000)]
    read = PositionBitmap.from_bytes(strategies.bitmap64(*gaps, (50_000, oracle.encode32([7]))))
    assert positions_of(read) == [(50_000 << 32) + 7]
    assert read.to_bytes() == oracle.encode([(50_000 << 32) + 7])


# Blobs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS[1:], ids=lambda codec: codec.name)
def test_a_declared_cardinality_is_checked(codec: Codec) -> None:
    decode: Any = codec.decode
    for every in SMALL:
        positions = fitting(codec, every)
        blob = codec.oracle_encode(positions)
        assert len(decode(blob, cardinality=len(positions))) == len(positions)
        for wrong in (len(positions) + 1, len(positions) - 1, 1 << 62):
            with pytest.raises((errors.CorruptDataError, errors.InvalidInputError)):
                decode(blob, cardinality=wrong)


@pytest.mark.parametrize("codec", [c for c in CODECS if c.frames], ids=lambda codec: codec.name)
def test_magic_and_length_come_before_the_checksum(codec: Codec) -> None:
    good = codec.oracle_encode([1, 2, 3])
    assert refusal(codec, good[:4] + b"\0\0\0\0" + good[8:-4] + bytes(4)).offset == 4
    assert refusal(codec, b"\0\0\0\1" + good[4:-4] + bytes(4)).offset == 0


def test_a_wrong_checksum_is_named_in_hex() -> None:
    (codec,) = (codec for codec in CODECS if codec.name == "iceberg")
    blob = codec.oracle_encode([0, 5, 70_000, (1 << 32) + 3])
    error = refusal(codec, blob[:-4] + b"\xde\xad\xbe\xef")
    assert "d6569e96" in str(error).lower()
    assert "deadbeef" in str(error).lower()
    assert error.offset == len(blob) - 4
