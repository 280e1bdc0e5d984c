"""Both byte forms: each tree has exactly one, and anything else is refused."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from itc import (
    MalformedError,
    Stamp,
    TreeError,
    decode,
    encode,
    pack,
    packed_height_at,
    packed_text,
    unpack,
)
from tests.unit.clock_strategies import EVENT_TREES, PATHS, STAMPS


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "empty"),
        ("00", "end within"),
        ("008000", "longer than need be"),
        ("0000ff", "longer than it should be"),
        ("010000", "no width"),
        ("010001000000", "no width"),
        ("01000203", "cut off"),
        ("0100ffffffffffffffff7f", "cut off"),
        ("0100020100", "cut off"),
        ("010002090001", "does not fit"),
        ("010002020001", "no tree"),
        ("010002010102", "do not fit"),
        ("010002010001ff", "longer than it should be"),
        ("01000305" + "000101", "normal form"),
        ("020002010001" + "0001", "longer than it should be"),
        ("020002010001" + "00", "do not fit"),
        ("020002010001" + "0200", "do not fit"),
        ("020002010001" + "0401", "do not fit"),
    ],
)
def test_what_is_wrong_with_packed_bytes_is_said(data, reason):
    with pytest.raises(MalformedError, match=reason):
        unpack(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "00", "0000ff", "0100ffffffffffffffff7f", "02000201000104"])
def test_no_height_is_read_from_bytes_of_a_wrong_length(data):
    with pytest.raises(MalformedError):
        packed_height_at(bytes.fromhex(data), "1")


def test_the_packed_form_is_the_documented_one():
    # Heights 3 at the left, 5 and 300 at the right: width 2, least 3, 3 leaves, shape 0b00101;
    # 0, 2 and 297 above the least: only the third of these has a second byte.
    stamp = Stamp.from_trees(0, (3, 0, (2, 0, 295)))
    assert pack(stamp).hex(" ") == "02 03 03 05 00 02 29 04 01"


def test_an_interval_to_unpack_into_is_checked():
    with pytest.raises(TreeError):
        unpack(b"\x00\x00", "x")


def taken(read, write, data):
    """Whether the bytes are accepted; if so, writing the stamp must give them again."""
    try:
        stamp = read(data)
    except MalformedError:
        return False
    assert write(stamp) == data
    return True


@given(STAMPS)
def test_the_bit_code_is_read_back(stamp):
    assert decode(encode(stamp)) == stamp


@given(STAMPS, STAMPS)
def test_equal_stamps_and_no_others_have_equal_bytes(a, b):
    assert (encode(a) == encode(b)) == (a == b)
    assert (pack(a) == pack(b)) == (a.peek() == b.peek())


@given(STAMPS, st.data())
def test_a_bit_code_that_was_tampered_with_is_refused_or_another_stamps(stamp, data):
    code = encode(stamp)
    at = data.draw(st.integers(0, len(code) - 1))
    other = code[:at] + bytes([data.draw(st.integers(0, 255))]) + code[at + 1 :]
    assert taken(decode, encode, other) or other != code
    assert not taken(decode, encode, code[:at])
    assert not taken(decode, encode, code + b"\x00")


@given(st.binary(max_size=12))
def test_any_bytes_are_refused_or_the_one_form_of_a_tree(data):
    taken(decode, encode, data)
    taken(unpack, pack, data)


@given(EVENT_TREES, PATHS)
def test_the_packed_form_is_read_back(tree, path):
    stamp = Stamp.from_trees(0, tree)
    data = pack(stamp)
    assert unpack(data) == stamp
    assert unpack(memoryview(data), path) == Stamp.of_interval(path).join(stamp)
    assert unpack(bytearray(data)).is_anonymous


@given(EVENT_TREES, PATHS)
def test_a_height_is_read_from_the_packed_form_without_unpacking(tree, path):
    stamp = Stamp.from_trees(0, tree)
    assert packed_height_at(pack(stamp), path) == stamp.height_at(path)
    assert packed_height_at(memoryview(pack(stamp)), path) == stamp.height_at(path)


@given(EVENT_TREES, PATHS | st.none())
def test_a_stamps_text_is_written_from_the_packed_form_without_unpacking(tree, path):
    data = pack(Stamp.from_trees(0, tree))
    assert packed_text(data, path) == str(unpack(data, path))
    assert packed_text(memoryview(data), path) == str(unpack(data, path))


@given(EVENT_TREES, st.data())
def test_packed_bytes_that_were_tampered_with_are_refused_or_another_trees(tree, data):
    packed = pack(Stamp.from_trees(0, tree))
    at = data.draw(st.integers(0, len(packed) - 1))
    other = packed[:at] + bytes([data.draw(st.integers(0, 255))]) + packed[at + 1 :]
    if taken(unpack, pack, other):
        assert packed_text(other) == str(unpack(other))
    else:
        with pytest.raises(MalformedError):
            packed_text(other)
    for wrong in (packed[:at], packed + b"\x00"):
        with pytest.raises(MalformedError):
            packed_text(wrong)
        assert not taken(unpack, pack, wrong)
        with pytest.raises(MalformedError):
            packed_height_at(wrong, "0")


@given(st.integers(0, 2**70))
@example(127)
@example(128)
def test_a_single_height_is_a_varint(height):
    data = pack(Stamp.from_trees(0, height))
    assert data[0] == 0
    assert packed_height_at(data, "0101") == height
