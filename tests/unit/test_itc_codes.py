"""Both byte forms: each tree has exactly one, and anything else is refused."""

import pytest

from itc import (
    MalformedError,
    Stamp,
    TreeError,
    pack,
    packed_height_at,
    unpack,
)


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
