"""The shared package: an event's fields, gaps, times, payloads."""

from __future__ import annotations

from types import NoneType
from typing import get_args, get_type_hints

import pytest

from model.blocks import BLOCK, block_of, ids_of
from model.event import EVERYTHING, FIELDS, SHOWN, Event
from model.payloads import payload_text
from model.times import iso_time


def test_every_field_of_an_event_is_described() -> None:
    assert tuple(field.name for field in FIELDS) == Event._fields


def test_a_field_may_be_none_where_it_may_be_missing_or_is_read_on_demand() -> None:
    types = get_type_hints(Event)
    for field in FIELDS:
        optional = NoneType in get_args(types[field.name])
        assert optional == (field.stored.null or field.stored.large), field.name


def test_every_shown_field_says_what_it_means_in_a_sentence() -> None:
    for field in SHOWN.values():
        assert field.shown.label[0].isupper(), field.name
        assert field.shown.meaning.endswith("."), field.name


def test_a_shown_field_names_the_large_ones_that_it_is_made_of() -> None:
    assert {name for field in SHOWN.values() for name in field.large} == EVERYTHING


def test_a_time_always_has_six_decimals() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00.000000Z"
    assert iso_time(1_767_268_800_000_001) == "2026-01-01T12:00:00.000001Z"


def test_a_payload_that_is_not_kept_is_none() -> None:
    assert payload_text(None, cut=True) == (None, "string")


@pytest.mark.parametrize("event_id", [0, 1, BLOCK - 1, BLOCK, 10 * BLOCK + 7])
def test_an_id_is_among_the_ids_of_its_block(event_id: int) -> None:
    first, end = ids_of(block_of(event_id), block_of(event_id))
    assert first <= event_id < end
