"""The shared package: an event's fields, gaps, times, payloads."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from hypothesis import assume, given
from hypothesis import strategies as st

from model.gaps import Gap
from model.payloads import payload_text
from model.times import iso_time, microseconds_of

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
    assert gap.spanned_by(a, b) == bool(between & lost_at) == gap.spanned_by(b, a)


@given(IDS, IDS, IDS)
def test_an_open_gap_is_spanned_by_all_that_ends_after_its_beginning(
    after: int, a: int, b: int
) -> None:
    assert Gap(1, after, None, 0, None, "lost").spanned_by(a, b) == (after < max(a, b))


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
