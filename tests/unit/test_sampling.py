"""A sample of the long tests: bounded, the same for the same seed, and sooner or later each."""

from pathlib import Path

from tests.sampling import NO_COMMIT, chosen, seed_of

SECONDS = {f"test_{number}": float(number) for number in range(1, 41)}


def test_a_sample_takes_no_longer_than_its_bound_and_hardly_less() -> None:
    for seed in map(str, range(20)):
        taken = sum(SECONDS[name] for name in chosen(SECONDS, seed, bound=120))
        assert 119 <= taken <= 120


def test_the_same_seed_gives_the_same_sample_in_whatever_order_tests_are_found() -> None:
    backwards = dict(reversed(SECONDS.items()))
    assert chosen(SECONDS, "abc", bound=120) == chosen(backwards, "abc", bound=120)


def test_over_many_seeds_each_is_run() -> None:
    seen = set[str]().union(*(chosen(SECONDS, str(seed), bound=120) for seed in range(60)))
    assert seen == SECONDS.keys()


def test_one_that_is_longer_than_the_bound_is_run_too_when_it_comes_first() -> None:
    assert chosen({"long": 500.0}, "abc", bound=120) == {"long"}


def test_without_a_commit_the_seed_is_fixed(tmp_path: Path) -> None:
    assert seed_of(tmp_path) == NO_COMMIT
