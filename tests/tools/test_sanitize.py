"""A few of the inputs that ``python -m drills.sanitize`` tries by the hundred thousand."""

from __future__ import annotations

import pytest

from drills.sanitize import runtime, sanitized


@pytest.mark.skipif(runtime() is None, reason="needs gcc with its sanitizers")
def test_sanitizers_find_nothing_in_what_is_compiled() -> None:
    ended = sanitized(2_000)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "none broke anything" in ended.stdout
