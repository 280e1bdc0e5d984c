"""A program's name: what its connections have in common."""

from __future__ import annotations

from hypothesis import example, given, strategies

from app.tracker.clients import LONGEST, client_name, shown_name

anything = strategies.text(
    strategies.characters(exclude_categories=()) | strategies.sampled_from("ab01-_.:#@ ()/\0"),
    max_size=1_200,
)


@given(anything)
@example("a" * 118 + "-1")
@example("a" * 130 + "-1")
@example("a-" + "1" * 130)
@example("1 " * 500)
@example("-" * 1_000 + "x")
@example("a" + " 1" * 400)
def test_any_name_becomes_one_that_can_be_stored_and_shown(name: str) -> None:
    program = client_name(name, {})
    assert (program is None) == (not name.strip())
    if program is not None:
        assert len(program) <= LONGEST
        assert program.isprintable()
        assert program == program.strip()
        program.encode()  # no lone surrogate
        assert client_name(program, {}) == program
        assert len(shown_name(name)) <= LONGEST


@given(
    strategies.from_regex(r"[A-Za-z][A-Za-z .]{0,20}[A-Za-z]", fullmatch=True).filter(
        lambda name: not name.endswith((".publisher", " Publish", " MessagePump", "pid"))
    ),
    strategies.lists(
        strategies.sampled_from(["-{}", ":{}", "#{}", "_{}", " ({})"]).flatmap(
            lambda form: strategies.integers(0, 99_999).map(form.format)
        )
        | strategies.uuids().map("-{}".format)
        | strategies.sampled_from([".publisher", " Publish", " MessagePump", "#1f2e:0"]),
        max_size=4,
    ),
)
def test_connections_of_one_program_have_one_name(program: str, suffixes: list[str]) -> None:
    assert client_name(program + "".join(suffixes), {}) == program
