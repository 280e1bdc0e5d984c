"""The two parts of all tests: each folder has its place in them."""

from __future__ import annotations

from tests.parts import HERE, LONGEST, ORDER, QUICK, RELEASE


def test_every_folder_with_tests_has_its_place_in_the_order() -> None:
    assert {path.parent.name for path in HERE.glob("*/test_*.py")} == {*ORDER, RELEASE}
    assert len(ORDER) == len(set(ORDER))
    assert set(QUICK) < set(ORDER)


def test_the_files_that_are_begun_first_are_there() -> None:
    assert all((HERE / ORDER[-1] / f"test_{name}.py").exists() for name in LONGEST)
