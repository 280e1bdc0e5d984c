"""The shared package: an event's fields, gaps, times, payloads."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from types import NoneType
from typing import get_args, get_type_hints

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from model.blocks import BLOCK, block_of, ids_of_blocks
from model.event import ALL_LARGE, EVENT_FIELDS, FIELDS, Event
from model.gaps import Gap
from model.payloads import payload_text
from model.times import iso_time, microseconds_of


def test_every_field_of_an_event_is_described() -> None:
    assert tuple(field.name for field in FIELDS) == Event._fields


def test_a_field_may_be_none_where_it_may_be_missing_or_is_read_on_demand() -> None:
    types = get_type_hints(Event)
    for field in FIELDS:
        optional = NoneType in get_args(types[field.name])
        assert optional == (field.stored.null or field.stored.large), field.name


def test_every_shown_field_says_what_it_means_in_a_sentence() -> None:
    for field in EVENT_FIELDS.values():
        assert field.display.label[0].isupper(), field.name
        assert field.display.meaning.endswith("."), field.name


def test_a_shown_field_names_the_large_ones_that_it_is_made_of() -> None:
    assert {name for field in EVENT_FIELDS.values() for name in field.large} == ALL_LARGE


def test_a_time_always_has_six_decimals() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00.000000Z"
    assert iso_time(1_767_268_800_000_001) == "2026-01-01T12:00:00.000001Z"


def test_a_payload_that_is_not_kept_is_none() -> None:
    assert payload_text(None, cut=True) == (None, "string")


@pytest.mark.parametrize("event_id", [0, 1, BLOCK - 1, BLOCK, 10 * BLOCK + 7])
def test_an_id_is_among_the_ids_of_its_block(event_id: int) -> None:
    first, end = ids_of_blocks(block_of(event_id), block_of(event_id))
    assert first <= event_id < end


IDS = st.integers(0, 50)


@given(IDS, st.integers(1, 50), IDS, IDS)
def test_a_gap_is_spanned_by_an_answer_that_begins_before_its_end_and_ends_after_its_beginning(
    after: int, length: int, a: int, b: int
) -> None:
    assume(a != b)
    gap = Gap(1, after, after + length, 0, 0, "lost")
    between = {(n, n + 1) for n in range(min(a, b), max(a, b))}
    lost_at = {(n, n + 1) for n in range(after, after + length)}
    # The loss is between two neighbours in the gap; the answer is about those from a to b.
    assert gap.is_spanned(a, b) == bool(between & lost_at) == gap.is_spanned(b, a)


@given(IDS, IDS, IDS)
def test_an_open_gap_is_spanned_by_all_that_ends_after_its_beginning(
    after: int, a: int, b: int
) -> None:
    assert Gap(1, after, None, 0, None, "lost").is_spanned(a, b) == (after < max(a, b))


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)))
def test_a_time_goes_out_as_it_came_in(time: datetime) -> None:
    aware = time.replace(tzinfo=UTC)
    assert datetime.fromisoformat(iso_time(microseconds_of(aware))) == aware
    assert microseconds_of(time) == microseconds_of(aware)


@given(st.text(min_size=1), st.integers(0))
def test_a_cut_text_stays_text(text: str, cut: int) -> None:
    body = text.encode()
    kept = body[: cut % len(body)]
    shown, encoding = payload_text(kept, cut=True)
    assert encoding == "string"
    assert shown is not None
    assert text.startswith(shown)
    assert len(kept) - len(shown.encode()) < 4


@given(st.binary(), st.booleans())
def test_a_payload_that_is_not_text_is_shown_whole_in_base64(body: bytes, cut: bool) -> None:
    shown, encoding = payload_text(body, cut)
    assert shown is not None
    if encoding == "base64":
        assert base64.b64decode(shown) == body
    else:
        assert body.startswith(shown.encode())
