"""Hypothesis strategies of position sets, and builders of malformed and non-canonical bytes.

The builders assemble bitmaps field by field, so that each of them breaks exactly one thing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.kit import oracle

Positions = NDArray[np.uint64]

EDGES = (1, 2, 3, 4, 4095, 4096, 4097, 65535, 65536)
"""Cardinalities at which a container, or its choice, changes."""

KEYS = (0, 1, 2, 3, 255, 1 << 16, (1 << 31) - 3, oracle.MAX_KEY)
"""Upper 32 bits of a position: neighbours, gaps and the largest."""

costly = settings(max_examples=min(settings.default.max_examples, 500))
"""For laws that take Python tens of milliseconds an example: the deep profile would take hours with them."""

# Sets ------------------------------------------------------------------------------------------------


def _spread(cardinality: int, seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed).choice(oracle.CHUNK, cardinality, replace=False))


def _runs(n_runs: int, length: int) -> NDArray[np.int64]:
    step = max(length + 1, oracle.CHUNK // n_runs)
    starts = np.arange(0, oracle.CHUNK - length, step)[:n_runs]
    return (starts[:, None] + np.arange(length)).ravel()


_cardinalities = st.one_of(st.sampled_from(EDGES), st.integers(1, 200), st.integers(1, oracle.CHUNK))
chunks: st.SearchStrategy[NDArray[np.int64]] = st.one_of(
    st.builds(lambda low: np.array([low]), st.sampled_from([0, 1, 63, 64, 65, 32767, 32768, 65534, 65535])),
    st.builds(lambda lows: np.array(sorted(lows)), st.sets(st.integers(0, 65535), min_size=1, max_size=40)),
    st.builds(_spread, _cardinalities, st.integers(0, 1 << 20)),
    st.builds(_runs, st.sampled_from([1, 2, 3, 100, 2046, 2047, 2048, 2049]), st.integers(1, 30)),
    st.builds(
        lambda start, n: np.arange(start, min(start + n, 65536)), st.integers(0, 65535), _cardinalities
    ),
    st.builds(lambda step, n: np.arange(0, 65536, step)[:n], st.integers(2, 20), _cardinalities),
)
"""The low 16 bits of one container's positions, sorted and distinct."""

_places = st.tuples(
    st.one_of(st.sampled_from(KEYS), st.integers(0, oracle.MAX_KEY - 1)),
    st.one_of(st.sampled_from([0, 1, 2, 32767, 65534, 65535]), st.integers(0, 65535)),
)


def assemble(chunks: dict[tuple[int, int], NDArray[np.int64]]) -> Positions:
    parts = [
        lows.astype(np.uint64) + np.uint64(key << 32 | high << 16)
        for (key, high), lows in sorted(chunks.items())
    ]
    positions = np.concatenate(parts) if parts else np.empty(0, np.uint64)
    return positions[positions <= oracle.MAX_POSITION]


def position_sets(max_chunks: int = 4) -> st.SearchStrategy[Positions]:
    """Sorted distinct positions in up to `max_chunks` containers anywhere in the whole range."""
    return st.dictionaries(_places, chunks, max_size=max_chunks).map(assemble)


def low_position_sets(max_chunks: int = 3) -> st.SearchStrategy[Positions]:
    """The same in the first containers only: what a mask of a file's rows can hold."""
    places = st.tuples(st.just(0), st.integers(0, 4))
    return st.dictionaries(places, chunks, max_size=max_chunks).map(assemble)


def small_position_sets() -> st.SearchStrategy[Positions]:
    """A handful of positions over container and key boundaries: cheap enough to alter each byte of them."""
    edges = [0, 1, 65535, 65536, 65537, (1 << 32) - 1, 1 << 32, (1 << 32) + 3, oracle.MAX_POSITION]
    scattered = st.sets(st.one_of(st.sampled_from(edges), st.integers(0, 1 << 34)), max_size=12)
    runs = st.builds(
        lambda start, n: set(range(start, start + n)), st.integers(0, 1 << 33), st.integers(0, 50)
    )
    union: st.SearchStrategy[set[int]] = st.builds(set.union, scattered, runs)
    return union.map(lambda values: np.array(sorted(values), np.uint64))


@st.composite
def messy(draw: st.DrawFn, sets: st.SearchStrategy[Positions]) -> tuple[NDArray[Any], Positions]:
    """(the same set shuffled and with repeats, of some integer dtype that holds it; the set)."""
    positions = draw(sets)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    repeated = np.concatenate([positions, positions[: draw(st.integers(0, 50))]])
    shuffled = rng.permutation(repeated) if draw(st.booleans()) else np.sort(repeated)
    largest = int(positions[-1]) if len(positions) else 0
    fitting = [d for d in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8") if np.iinfo(d).max >= largest]
    return shuffled.astype(draw(st.sampled_from(fitting))), positions


# Building bitmaps field by field ------------------------------------------------------------------------


class Container(NamedTuple):
    """One container as it will be written, right or wrong."""

    key: int
    cardinality: int
    payload: bytes
    is_run: bool = False


def array(key: int, lows: Sequence[int], cardinality: int | None = None) -> Container:
    payload = struct.pack(f"<{len(lows)}H", *lows)
    return Container(key, len(lows) if cardinality is None else cardinality, payload)


def bits(key: int, lows: Iterable[int], cardinality: int | None = None) -> Container:
    wanted = sorted(lows)
    return Container(key, len(wanted) if cardinality is None else cardinality, oracle.bits_of(wanted))


def run(
    key: int, *pairs: tuple[int, int], cardinality: int | None = None, count: int | None = None
) -> Container:
    """Runs as (first, last)."""
    payload = struct.pack("<H", len(pairs) if count is None else count)
    payload += b"".join(struct.pack("<HH", first, last - first) for first, last in pairs)
    total = sum(last - first + 1 for first, last in pairs)
    return Container(key, total if cardinality is None else cardinality, payload, True)


def bitmap32(
    *containers: Container,
    cookie: int | None = None,
    count: int | None = None,
    shift_offset: tuple[int, int] = (0, 0),
    extra_flags: int = 0,
) -> bytes:
    """A 32-bit bitmap; `shift_offset` is (which entry, by how much)."""
    with_runs = any(c.is_run for c in containers) if cookie is None else cookie == oracle.RUNS
    n = len(containers) if count is None else count
    if with_runs:
        flags = sum(1 << i for i, c in enumerate(containers) if c.is_run) | extra_flags
        header = struct.pack("<HH", oracle.RUNS, n - 1) + flags.to_bytes((len(containers) + 7) // 8, "little")
    else:
        header = struct.pack("<II", oracle.NO_RUNS if cookie is None else cookie, n)
    header += b"".join(struct.pack("<HH", c.key, c.cardinality - 1) for c in containers)
    if not with_runs or len(containers) >= oracle.OFFSETS_FROM:
        at = len(header) + 4 * len(containers)
        for i, container in enumerate(containers):
            header += struct.pack("<I", at + (shift_offset[1] if i == shift_offset[0] else 0))
            at += len(container.payload)
    return header + b"".join(c.payload for c in containers)


EMPTY32 = bitmap32()
"""How Java fills a gap between keys: 8 bytes."""


def bitmap64(*entries: tuple[int, bytes], count: int | None = None) -> bytes:
    declared = len(entries) if count is None else count
    return struct.pack("<Q", declared) + b"".join(struct.pack("<I", key) + inner for key, inner in entries)


def one(*containers: Container, **fields: Any) -> bytes:
    """A 64-bit bitmap with the single key 0."""
    return bitmap64((0, bitmap32(*containers, **fields)))


# The malformed -----------------------------------------------------------------------------------------

MALFORMED: dict[str, Callable[[], bytes]] = {}
"""Portable 64-bit bitmaps that must be refused, by what is wrong with them."""

_FOUR = tuple(array(key, [1, 2, 3]) for key in range(4))
_ODD = range(1, 65536, 2)


def _case(name: str, data: bytes) -> None:
    MALFORMED[name] = lambda: data


for _cookie in (0, 12345, 12348, 12346 | 1 << 16, 0xFFFFFFFF):
    _case(f"wrong_cookie_{_cookie:x}", one(array(0, [1]), cookie=_cookie))
_case("container_count_over_65536", one(array(0, [1]), count=65537))
_case("container_count_huge", one(array(0, [1]), count=0xFFFFFFFF))
_case("container_count_past_the_end", one(array(0, [1]), count=65536))
_case("run_container_count_past_the_end", one(run(0, (1, 9)), count=65536))
_case("container_keys_unsorted", one(array(1, [1]), array(0, [2])))
_case("container_keys_repeated", one(array(1, [1]), array(1, [2])))
_case("container_keys_unsorted_with_runs", one(run(1, (1, 9)), array(0, [2])))
_case("container_keys_repeated_with_runs", one(run(1, (1, 9)), run(1, (20, 29))))
_case("keys_unsorted", bitmap64((1, bitmap32(array(0, [1]))), (0, bitmap32(array(0, [2])))))
_case("keys_repeated", bitmap64((1, bitmap32(array(0, [1]))), (1, bitmap32(array(0, [2])))))
_case("keys_repeated_with_an_empty_bitmap", bitmap64((1, EMPTY32), (1, bitmap32(array(0, [2])))))
_case("key_2_to_the_31", bitmap64((1 << 31, bitmap32(array(0, [1])))))
_case("key_2_to_the_31_less_one", bitmap64(((1 << 31) - 1, bitmap32(array(0, [1])))))
_case("key_2_to_the_31_empty", bitmap64((1 << 31, EMPTY32)))
_case("key_all_ones", bitmap64((0xFFFFFFFF, bitmap32(array(0, [1])))))
_case("position_over_the_maximum", bitmap64((oracle.MAX_KEY, bitmap32(array(0x8000, [0, 1])))))
for _which in range(4):
    for _by in (-1, 1, 1 << 31):
        _case(f"offset_{_which}_off_by_{_by}", one(*_FOUR, shift_offset=(_which, _by)))
_case("offset_wrong_with_runs", one(run(0, (1, 9)), *_FOUR[1:], shift_offset=(2, 2)))
_case("array_unsorted", one(array(0, [5, 3, 9])))
_case("array_repeated", one(array(0, [5, 5, 9])))
_case("array_unsorted_at_its_end", one(array(0, [*range(0, 8190, 2), 8187])))
_case("array_repeated_at_its_end", one(array(0, [*range(0, 8190, 2), 8188])))
_case("array_unsorted_in_the_middle", one(array(0, [*range(200), 198, *range(201, 300)])))
_case("bitmap_cardinality_too_large", one(bits(0, _ODD, cardinality=32769)))
_case("bitmap_cardinality_too_small", one(bits(0, _ODD, cardinality=32767)))
_case("bitmap_with_too_few_bits", one(bits(0, [1, 2, 3], cardinality=4097)))
_case("bitmap_empty", one(bits(0, [], cardinality=65536)))
_case("runs_overlap", one(run(0, (1, 9), (5, 12))))
_case("runs_overlap_by_one", one(run(0, (1, 9), (9, 12))))
_case("runs_repeated", one(run(0, (1, 9), (1, 9))))
_case("runs_nested", one(run(0, (1, 9), (3, 4))))
_case("runs_out_of_order", one(run(0, (20, 29), (1, 9))))
_case("runs_touch_out_of_order", one(run(0, (10, 19), (1, 9))))
_case("run_passes_65535", one(run(0, (65530, 65536))))
_case("second_run_passes_65535", one(run(0, (1, 9), (65000, 65000 + 65535), cardinality=600)))
_case("run_cardinality_too_small", one(run(0, (1, 9), cardinality=8)))
_case("run_cardinality_too_large", one(run(0, (1, 9), cardinality=10)))
_case("run_container_without_runs", one(run(0, cardinality=1)))
_case("run_count_past_the_end", one(run(0, (1, 9), count=65535)))
_case("run_count_too_large", one(run(0, (1, 9), (20, 29), count=3)))
_case("run_count_too_small", one(run(0, (1, 9), (20, 29), count=1)))
_case("bitmap_count_too_large", bitmap64((0, bitmap32(array(0, [1]))), count=2))
_case("bitmap_count_too_small", bitmap64((0, bitmap32(array(0, [1]))), (1, EMPTY32), count=1))
_case("bitmap_count_huge", bitmap64((0, bitmap32(array(0, [1]))), count=(1 << 64) - 1))
_case("bitmap_count_zero_with_bytes", bitmap64((0, bitmap32(array(0, [1]))), count=0))
_case("bitmap_count_overflows_when_scaled", bitmap64((0, bitmap32(array(0, [1]))), count=1 << 61))
_case("trailing_byte", one(array(0, [1, 2])) + b"\0")
_case("trailing_bytes_after_nothing", bitmap64() + b"\0" * 8)
_case("no_bytes", b"")
_case("count_only", bitmap64(count=1))
_case("key_only", bitmap64((0, b"")))
_case("cookie_only", bitmap64((0, EMPTY32[:4])))
_case("array_truncated", one(array(0, [1, 2, 3]))[:-1])
_case("bitmap_truncated", one(bits(0, _ODD))[:-1])
_case("run_truncated", one(run(0, (1, 9), (20, 29)))[:-1])


MALFORMED_BLOBS: dict[str, Callable[[], bytes]] = {
    name: lambda build=build: oracle.frame(build())
    for name, build in MALFORMED.items()  # type: ignore[misc]
}
"""Blobs with a right frame around each malformed bitmap, and blobs whose frame is wrong."""

_GOOD = oracle.encode_blob([0, 5, 70000, (1 << 32) + 3])


def _blob(name: str, data: bytes) -> None:
    MALFORMED_BLOBS[name] = lambda: data


_blob("blob_without_bytes", b"")
_blob("blob_with_a_length_only", _GOOD[:4])
_blob("blob_of_the_smallest_frame", oracle.frame(b""))
_blob("blob_length_too_small", struct.pack(">I", len(_GOOD) - 9) + _GOOD[4:])
_blob("blob_length_too_large", struct.pack(">I", len(_GOOD) - 7) + _GOOD[4:])
_blob("blob_length_zero", struct.pack(">I", 0) + _GOOD[4:])
_blob("blob_length_huge", struct.pack(">I", 0xFFFFFFFF) + _GOOD[4:])
_blob("blob_length_little_endian", struct.pack("<I", len(_GOOD) - 8) + _GOOD[4:])
_blob("blob_magic_of_delta_native", oracle.frame(_GOOD[8:-4], bytes.fromhex("d0d33964")))
_blob("blob_magic_of_paimon", oracle.frame(_GOOD[8:-4], bytes.fromhex("5e43f2d0")))
_blob("blob_magic_reversed", oracle.frame(_GOOD[8:-4], oracle.MAGIC[::-1]))
_blob("blob_checksum_wrong", _GOOD[:-1] + bytes([_GOOD[-1] ^ 1]))
_blob("blob_checksum_little_endian", _GOOD[:-4] + _GOOD[:-5:-1])
_blob("blob_checksum_zero", _GOOD[:-4] + bytes(4))
_blob("blob_with_a_trailing_byte", _GOOD + b"\0")
_blob("blob_without_its_last_byte", _GOOD[:-1])
_blob("blob_without_its_frame", _GOOD[8:-4])

# The non_canonical -------------------------------------------------------------------------------------------

ACCEPTED: dict[str, tuple[bytes, list[int]]] = {
    "nothing": (bitmap64(), []),
    "empty_bitmap_alone": (bitmap64((0, EMPTY32)), []),
    "empty_bitmap_at_the_largest_key": (bitmap64((oracle.MAX_KEY, EMPTY32)), []),
    "gaps_as_java_writes_them": (
        bitmap64(*((k, EMPTY32) for k in range(3)), (3, bitmap32(array(0, [7])))),
        [(3 << 32) + 7],
    ),
    "empty_bitmap_last": (bitmap64((0, bitmap32(array(0, [7]))), (1, EMPTY32)), [7]),
    "runs_larger_than_an_array": (one(run(0, (1, 1), (3, 3), (5, 5))), [1, 3, 5]),
    "runs_larger_than_a_bitmap": (
        one(run(0, *((v, v) for v in range(0, 65536, 2)))),
        list(range(0, 65536, 2)),
    ),
    "run_of_one": (one(run(0, (65535, 65535))), [65535]),
    "run_of_everything": (one(run(65535, (0, 65535))), list(range(65535 << 16, 1 << 32))),
    "array_larger_than_a_run": (one(array(0, list(range(10, 5000 - 904)))), list(range(10, 4096))),
    "bitmap_larger_than_a_run": (one(bits(0, range(65536))), list(range(65536))),
    "run_cookie_without_runs": (one(array(0, [1, 2]), cookie=oracle.RUNS), [1, 2]),
    "run_cookie_without_runs_and_offsets": (
        one(*_FOUR, cookie=oracle.RUNS),
        [(key << 16) + low for key in range(4) for low in (1, 2, 3)],
    ),
    "runs_that_touch": (one(run(0, (1, 9), (10, 12), (20, 29))), [*range(1, 13), *range(20, 30)]),
    "run_flags_padded_with_ones": (one(run(0, (1, 9)), extra_flags=0xFE), list(range(1, 10))),
    "largest_position": (bitmap64((oracle.MAX_KEY, bitmap32(array(0x8000, [0])))), [oracle.MAX_POSITION]),
}
"""Bitmaps that are read though never written so, or that are just on the edge, and what they hold."""

ACCEPTED_BLOBS = {name: (oracle.frame(data), held) for name, (data, held) in ACCEPTED.items()}
