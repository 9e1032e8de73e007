"""The footer: malformed ones are refused with field and offset, valid ones are read."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast.errors import CorruptDataError, LimitExceededError, PuffinFastError, UnsupportedError
from puffin_fast.puffin import (
    BlobMetadata,
    FileMetadata,
    PuffinReader,
    PuffinWriter,
    _typed,
    compression,
    footer,
    metadata,
)
from tests.kit.cases import each
from tests.kit.damage import flipped_bits
from tests.puffin.conftest import lz4_payload, raw_file

EMPTY = b'{"blobs":[]}'

BLOB: dict[str, Any] = {
    "type": "t",
    "fields": [1],
    "snapshot-id": 2,
    "sequence-number": 3,
    "offset": 4,
    "length": 0,
}


@pytest.fixture(params=["with msgspec", "without"], scope="module", autouse=True)
def msgspec(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Everything here holds whether msgspec is installed or not."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "without":
            patch.setattr(_typed, "msgspec", None)
        else:
            pytest.importorskip("msgspec")
        yield request.param != "without"


def open_bytes(data: bytes) -> FileMetadata:
    with PuffinReader(io.BytesIO(data)) as reader:
        return reader.metadata


def with_blob(**changes: Any) -> bytes:
    """The payload of one blob, with some fields changed or, where the value is `...`, left out."""
    blob = {key: value for key, value in {**BLOB, **changes}.items() if value is not ...}
    return json.dumps({"blobs": [blob]}).encode()


@each(
    ("changes", "field", "expected", "found"),
    [
        ({"type": ...}, "blobs[0].type", "a string", "nothing"),
        ({"type": 3}, "blobs[0].type", "a string", "3"),
        ({"fields": ...}, "blobs[0].fields", "a list of integers", "nothing"),
        ({"fields": "1"}, "blobs[0].fields", "a list of integers", '"1"'),
        ({"fields": [1, True]}, "blobs[0].fields", "integers of 32 bits", "true"),
        ({"fields": [2**31]}, "blobs[0].fields", "integers of 32 bits", "2147483648"),
        ({"snapshot-id": ...}, "blobs[0].snapshot-id", "an integer of 64 bits", "nothing"),
        ({"snapshot-id": 2**63}, "blobs[0].snapshot-id", "an integer of 64 bits", str(2**63)),
        ({"sequence-number": 1.0}, "blobs[0].sequence-number", "an integer of 64 bits", "1.0"),
        ({"offset": ...}, "blobs[0].offset", "an integer from 0 to 2^63 - 1", "nothing"),
        ({"offset": -4}, "blobs[0].offset", "an integer from 0 to 2^63 - 1", "-4"),
        ({"offset": True}, "blobs[0].offset", "an integer from 0 to 2^63 - 1", "true"),
        ({"offset": None}, "blobs[0].offset", "an integer from 0 to 2^63 - 1", "null"),
        ({"length": "9"}, "blobs[0].length", "an integer from 0 to 2^63 - 1", '"9"'),
        ({"length": -1}, "blobs[0].length", "an integer from 0 to 2^63 - 1", "-1"),
        ({"length": 10**400}, "blobs[0].length", "an integer from 0 to 2^63 - 1", "an integer of 1329 bits"),
        ({"compression-codec": 1}, "blobs[0].compression-codec", "a string", "1"),
        ({"properties": None}, "blobs[0].properties", "an object", "null"),
        ({"properties": []}, "blobs[0].properties", "an object", "a list"),
        ({"properties": {"a": 1}}, "blobs[0].properties['a']", "a string", "1"),
        ({"properties": {"a": {"b": "c"}}}, "blobs[0].properties['a']", "a string", "an object"),
    ],
)
def test_a_wrong_field_is_named_with_expected_and_found(
    changes: dict[str, Any], field: str, expected: str, found: str
) -> None:
    with pytest.raises(CorruptDataError) as caught:
        open_bytes(raw_file(with_blob(**changes)))
    error = caught.value
    assert (error.what, error.expected, error.found) == (f"footer field {field}", expected, found)
    assert error.offset == 8


@each(
    ("payload", "message"),
    [
        (b"", "JSON"),
        (b"[]", "a JSON object"),
        (b"{}", "found nothing"),
        (b'{"blobs":null}', "found null"),
        (b'{"blobs":{}}', "a list of objects"),
        (b'{"blobs":[3]}', r"blobs\[0\]: expected an object, found 3"),
        (b'{"blobs":[],"properties":{"a":null}}', r"properties\['a'\]: expected a string, found null"),
        (b'{"blobs":[],"properties":null}', "properties: expected an object, found null"),
        (b'{"blobs":[]} x', "offset 21: .*Extra data"),
        (b'{"blobs":[NaN]}', "the constant NaN"),
        (b'{"blobs":[],"blobs":[]}', "repeated key 'blobs'"),
        (b'{"blobs":[],"blobs" :[]}', "repeated key 'blobs'"),
        (b'{"blobs":[],"bl\\u006fbs":[]}', "repeated key 'blobs'"),
        (b'{"blobs":[],"properties":{"a":"b","a":"b"}}', "repeated key 'a'"),
        (b'{"blobs":[],"later":{"a":1,"a":2}}', "repeated key 'a'"),
        (b'{"blobs":[],"properties":{"a":"\\ud800"}}', "lone surrogate"),
        (b'{"blobs":[],"properties":{"a":"\xff"}}', "offset 39: .*expected UTF-8, found bytes ff"),
        ('{"blobs":[]}'.encode("utf-16"), "expected UTF-8"),
        (b"\xef\xbb\xbf" + EMPTY, "BOM"),
        (b'{"blobs":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"blobs":[],"x":' + b"9" * 5000 + b"}", "4300"),
        (b'{"blobs":[],"x":"a\nb"}', "Invalid control character"),
    ],
)
def test_json_extensions_are_refused(payload: bytes, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        open_bytes(raw_file(payload))


def test_a_repeated_key_among_many_blobs_is_found() -> None:
    blobs = [json.dumps(BLOB)] * 50
    blobs[31] = blobs[31].replace('"length": 0', '"length": 0, "length": 0')
    with pytest.raises(CorruptDataError, match="repeated key 'length'"):
        open_bytes(raw_file(f'{{"blobs":[{",".join(blobs)}]}}'.encode()))


@each(
    ("data", "what"),
    [
        (b"", "file size"),
        (raw_file(EMPTY)[:27], "magic at the end"),
        (b"PFA1PFA1" + bytes(8) + b"PFA", "file size"),
        (raw_file(EMPTY, end=b"PFA2"), "magic at the end of the file"),
        (raw_file(EMPTY, middle=b"PFA2"), "magic at the start of the footer"),
        (raw_file(EMPTY, head=b"PFA2"), "magic at the start of the file"),
        (raw_file(EMPTY, size=-1), "footer payload size"),
        (raw_file(EMPTY, size=len(EMPTY) + 1), "footer payload size"),
        (raw_file(EMPTY, size=2**31 - 1), "footer payload size"),
        (raw_file(EMPTY, size=len(EMPTY) - 1), "magic at the start of the footer"),
    ],
)
def test_a_broken_frame_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(CorruptDataError, match=what):
        open_bytes(data)


@each("bit", range(1, 32))
def test_reserved_flags_are_unsupported(bit: int) -> None:
    with pytest.raises(UnsupportedError, match="footer flags"):
        open_bytes(raw_file(EMPTY, flags=(1 << bit).to_bytes(4, "little")))


@pytest.mark.parametrize(("offset", "length"), [(3, 1), (0, 4), (4, 11), (14, 1), (15, 0), (2**63 - 1, 1)])
def test_blobs_outside_of_head_and_footer_are_refused(offset: int, length: int) -> None:
    with pytest.raises(CorruptDataError, match=r"range of blobs\[0\]: expected bytes from 4 to 14"):
        open_bytes(raw_file(with_blob(offset=offset, length=length), blobs=bytes(10)))


def test_other_codecs_do_not_exist() -> None:
    with pytest.raises(UnsupportedError, match="expected one of lz4, zstd, found 'gzip'"):
        open_bytes(raw_file(with_blob(**{"compression-codec": "gzip"})))


def test_a_footer_too_large_for_its_size_field_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footer, "MAX_PAYLOAD_SIZE", 100)
    with pytest.raises(LimitExceededError, match="limit is 100"):
        footer.encode(FileMetadata((BlobMetadata("t" * 100, (), 0, 0, 4, 0),)))


def test_keys_come_in_the_order_of_the_java_writer() -> None:
    blob = BlobMetadata("t", (1, 2), 3, 4, 5, 6, "zstd", {"z": "1", "a": "ü"})
    assert metadata.to_json(FileMetadata((blob,), {"created-by": "x"})).decode() == (
        '{"blobs":[{"type":"t","fields":[1,2],"snapshot-id":3,"sequence-number":4,"offset":5,"length":6,'
        '"compression-codec":"zstd","properties":{"z":"1","a":"ü"}}],"properties":{"created-by":"x"}}'
    )


text = st.text(st.characters(codec="utf-8"), max_size=20)
texts = st.dictionaries(text, text, max_size=3)
longs = st.integers(-(2**63), 2**63 - 1)
positive = st.integers(0, 2**63 - 1)
blob_metadata = st.builds(
    BlobMetadata,
    text,
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3).map(tuple),
    longs,
    longs,
    positive,
    positive,
    st.sampled_from([None, *compression.CODECS]),
    texts,
)


@given(st.builds(FileMetadata, st.lists(blob_metadata, max_size=4).map(tuple), texts))
def test_json_round_trips(content: FileMetadata) -> None:
    assert metadata.from_json(metadata.to_json(content)) == content


def outcome(payload: bytes) -> FileMetadata | str:
    try:
        return metadata.from_json(payload)
    except CorruptDataError as error:
        return str(error)


values = [
    "-1",
    "0",
    "4",
    "-0",
    "1.0",
    "1e2",
    "true",
    "null",
    '"t"',
    '"\\u0074"',
    "[]",
    "[1,1]",
    "[1.0]",
    "[2147483648]",
]
values += [
    "{}",
    '{"a":"b"}',
    '{"a":"b","a":"b"}',
    '{"a":1}',
    '{"length":{"x":NaN}}',
    str(2**63),
    str(-(2**63) - 1),
    "x",
]
snippets = st.sampled_from(values)
usual = {key: json.dumps(value) for key, value in BLOB.items()} | {"properties": '{"a":"ü"}'}
odd_members = st.tuples(st.sampled_from([*usual, "compression-codec", "later", "blobs"]), snippets)


@given(st.permutations([*usual.items()]), st.lists(odd_members, max_size=2), st.integers(0, 2), snippets)
def test_msgspec_and_json_accept_the_same_footers(
    members: list[tuple[str, str]], odd: list[tuple[str, str]], n_dropped: int, value: str
) -> None:
    blob = "{" + ",".join(f'"{key}":{value}' for key, value in [*members[n_dropped:], *odd]) + "}"
    payload = f'{{"blobs":[{blob}],"properties":{value}}}'.encode()
    found = outcome(payload)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_typed, "msgspec", None)
        assert found == outcome(payload)


def test_msgspec_parses_footers_of_known_writers(msgspec: bool) -> None:
    blob = BlobMetadata("t", (1, 2), 3, 4, 5, 6, "zstd", {"a": "ü"})
    content = FileMetadata((blob, BlobMetadata("t", (), -1, -1, 4, 0)), {"created-by": "x"})
    assert (_typed.read(metadata.to_json(content).decode()) is not None) == msgspec


@given(st.binary(max_size=60))
def test_any_payload_is_read_or_refused(payload: bytes) -> None:
    for flags in (bytes(4), b"\1\0\0\0"):
        with contextlib.suppress(PuffinFastError):
            open_bytes(raw_file(payload, flags=flags))


def test_any_truncation_is_refused(small_file: bytes) -> None:
    for end in range(len(small_file)):
        with pytest.raises(CorruptDataError):
            open_bytes(small_file[:end])


@pytest.mark.parametrize("compress_footer", [False, True])
def test_any_flipped_bit_is_refused_or_read_as_something_well_formed(compress_footer: bool) -> None:
    sink = io.BytesIO()
    with PuffinWriter(sink, properties={"created-by": "test"}, compress_footer=compress_footer) as writer:
        writer.add(b"plain bytes", type="a", fields=(1,), properties={"k": "v"})
        writer.add(b"zz" * 40, type="b", compression="zstd")
        writer.add(b"ll" * 40, type="c", compression="lz4")
    whole = sink.getvalue()
    for changed in flipped_bits(whole):
        try:
            with PuffinReader(io.BytesIO(changed)) as reader:
                content = reader.metadata
                read = list(reader.read_many())
        except PuffinFastError:
            continue
        # what is accepted can be written
        assert metadata.from_json(metadata.to_json(content)) == content
        assert [blob for blob, _ in read] == sorted(
            content.blobs, key=lambda blob: (blob.offset, blob.length)
        )


def test_a_compressed_footer_is_one_frame_with_its_content_size() -> None:
    flags = b"\1\0\0\0"
    frame = lz4_payload(EMPTY, store_size=True)
    assert open_bytes(raw_file(frame, flags=flags)) == FileMetadata()
    with pytest.raises(CorruptDataError, match="single frame, found 1 more bytes"):
        open_bytes(raw_file(frame + b"x", flags=flags))
    with pytest.raises(CorruptDataError, match="content size"):
        open_bytes(raw_file(lz4_payload(EMPTY, store_size=False), flags=flags))


def test_other_keys_white_space_and_order_do_not_matter() -> None:
    more = {"blobs": [{**BLOB, "later": {"a": [1, "x"]}, "compression-codec": None}], "more": None}
    for payload in (json.dumps(more), json.dumps({"blobs": [dict(reversed(BLOB.items()))]}, indent=3)):
        assert open_bytes(raw_file(payload.encode())).blobs == (BlobMetadata("t", (1,), 2, 3, 4, 0),)
    assert open_bytes(raw_file(EMPTY)) == FileMetadata()
