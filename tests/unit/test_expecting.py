"""What is learnt from briefs: shares among those old enough, what is slow, what is rare."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from app.assertion_files import parse
from model.assertions.language import to_json
from model.gaps import Gap
from model.sketch import Sketch
from spark_jobs.reports import expectations, expectations_job
from spark_jobs.reports.brief import Brief, Case, Horizon, brief_in, feature, size_of, text_of_brief
from spark_jobs.reports.comparison import HitRate, deviation, share_state, time_state
from spark_jobs.reports.contrast import contrasts, tail_probability
from spark_jobs.reports.expectations import (
    CaseCounts,
    Norms,
    Reason,
    Thresholds,
    VariantJudge,
    learn,
    rare_among,
    slow_from,
)
from spark_jobs.reports.expectations_job import Sums
from spark_jobs.reports.proposals import proposals, round_up
from tests.unit.test_sketch import sketch_of

SECOND = 1_000_000
END = 10_000 * SECOND


def order(
    at: int, *delays: float, effect: str = "invoice", before: Iterable[str] = (), number: int = 1
) -> Case:
    effects = {effect: (len(delays), round(min(delays) * SECOND))} if delays else {}
    return Case(number, "order", at, 100, effects, [*before], [])


def learnt(cases: Iterable[Case], asked: Thresholds = Thresholds()) -> Norms:  # noqa: B008
    tally, other = CaseCounts(), CaseCounts()
    for place, case in enumerate(cases):
        (tally, other)[place % 2].add(case, END)
    tally.merge(CaseCounts.of_text(other.to_text()))
    return learn(tally, asked)


def brief(*cases: Case) -> Brief:
    return Brief(
        cases[0].event, 9, "order", cases[0].published_at, 0, "v", None, True, False, [*cases], []
    )


def test_what_is_too_young_for_an_effect_counts_neither_for_nor_against_it() -> None:
    dice = random.Random(1)
    cases = []
    for _ in range(2_000):
        at = END - round(dice.random() * 40 * SECOND)
        delay = dice.uniform(1, 4)
        has_come = at + delay * SECOND <= END and dice.random() < 0.97
        cases.append(order(at, *([delay] if has_come else [])))
    [found] = learnt(cases).expectations
    seen = sum(bool(case.effects) for case in cases) / len(cases)
    assert seen < 0.93
    assert 0.95 < found.share < 0.985
    assert found.cases + found.left_out == 2_000
    assert found.left_out > 200
    judge = VariantJudge(learnt(cases), Thresholds())
    assert judge.is_young(brief(order(END - 2 * SECOND)), END)
    assert not judge.is_young(brief(order(END - 30 * SECOND)), END)
    # A gap ends what can be known of what came before it.
    assert judge.is_young(brief(order(END - 30 * SECOND)), END - 28 * SECOND)


@pytest.mark.parametrize("shape", ["exponential", "uniform", "lognormal", "constant"])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_slow_is_not_just_the_longest_of_many(shape: str, seed: int) -> None:
    dice = random.Random(seed)
    draw = {
        "exponential": lambda: dice.expovariate(1),
        "uniform": lambda: dice.uniform(0.5, 1),
        "lognormal": lambda: dice.lognormvariate(0, 1) / 10,
        "constant": lambda: 1.0,
    }[shape]
    values = [draw() * SECOND for _ in range(10_000)]
    limit = slow_from(sketch_of([*values, *[60 * SECOND] * 12]))
    assert limit is not None
    assert max(values) < limit < 60 * SECOND


def test_of_few_times_nothing_is_called_slow() -> None:
    assert slow_from(sketch_of([SECOND] * 199)) is None


NORMAL = [order(0, 1.0, before=["approve"]) for _ in range(1_000)]


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (order(0, before=["approve"]), "missing"),
        (order(0, 1.0, 1.0, before=["approve"]), "many"),
        (order(0, 60.0, before=["approve"]), "slow"),
        (order(0, 1.0), "order"),
        (order(0, 1.0, before=["approve"])._replace(wait=SECOND), "waited"),
        (order(0, 1.0, before=["approve"])._replace(marks=["died work rejected"]), "failed"),
        (order(0, 1.0, before=["approve"]), None),
    ],
)
def test_what_is_out_of_the_ordinary_has_its_reason(case: Case, kind: str | None) -> None:
    judge = VariantJudge(learnt([*NORMAL, case]), Thresholds())
    assert [reason.kind for reason in judge.reasons(brief(case))] == ([kind] if kind else [])


def test_an_effect_that_hardly_ever_comes_is_unexpected() -> None:
    odd = NORMAL[0]._replace(effects={**NORMAL[0].effects, "refund": (1, SECOND)})
    judge = VariantJudge(learnt([*NORMAL, odd]), Thresholds())
    assert judge.reasons(brief(odd)) == [Reason("unexpected", "order", "refund", 1)]
    often = [odd, *NORMAL[:20]] * 5
    assert not VariantJudge(learnt(often), Thresholds()).reasons(brief(odd))


def test_from_few_cases_nothing_is_claimed() -> None:
    few = [*NORMAL[:90], order(0)]
    found = learnt(few)
    assert proposals(found, Thresholds()) == []
    assert not VariantJudge(found, Thresholds()).reasons(brief(order(0)))


def test_what_follows_from_other_orders_is_not_said_again() -> None:
    names = ["a", "b", "c"]
    cases = [
        Case(1, name, 0, None, {}, names[:place], [])
        for place, name in enumerate(names)
        for _ in range(200)
    ]
    assert {(one.type, one.predecessor) for one in learnt(cases).orders} == {("b", "a"), ("c", "b")}


def test_tables_are_bounded_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "MOST_PAIRS", 3)
    found = learnt([order(0, 1.0, effect=f"effect {n}") for n in range(20)])
    assert (len(found.expectations), found.is_all) == (3, False)


def test_rare_is_told_among_conversations_that_begin_alike_and_only_of_many() -> None:
    counts = [("order", "a", 990), ("order", "b", 2), ("nightly", "c", 1), ("nightly", "d", 3)]
    found = {one.digest: one.rare for one in rare_among(counts, Thresholds())}
    assert found == {"a": False, "b": True, "c": None, "d": None}
    varied = [("order", "a", 800), *(("order", f"v{n}", 1) for n in range(200))]
    assert {one.rare for one in rare_among(varied, Thresholds())} == {None}


def test_what_spans_a_gap_is_unknown_and_a_later_gap_ends_what_was_observed() -> None:
    gap = Gap(1, 20, 30, 500, 600, "lost")
    observed = Horizon(1_000, [gap])

    def at(root: int, last: int) -> Brief:
        return brief(order(0))._replace(root=root, last=last)

    assert [observed.is_known(at(*ends)) for ends in ((1, 20), (15, 31), (30, 35))] == [
        True,
        False,
        True,
    ]
    assert observed.end_for(at(1, 20)) == 500
    assert observed.end_for(at(30, 35)) == 1_000
    assert not observed.is_known(at(1, 2)._replace(is_whole=False))


def test_a_brief_is_a_line() -> None:
    one = brief(NORMAL[0])._replace(shape={"messages": 1}, features=[feature("place", "", "a")])
    assert text_of_brief(brief_in(text_of_brief(one))) == text_of_brief(one)


def test_what_some_have_in_common_is_told_unless_it_may_be_chance() -> None:
    broken = feature("participant", "", "billing-1")
    shared = feature("place", "", "10.0.0.1")
    some = {broken: 10, shared: 10, feature("header", "order", "region=eu"): 6}
    others = {broken: 300, shared: 990, feature("header", "order", "region=eu"): 500}
    [found] = contrasts(some, 10, others, 1_000)
    assert (found.kind, found.type, found.value, found.score) == (
        "participant",
        None,
        "billing-1",
        0.7,
    )
    assert found.chance == pytest.approx(3 * tail_probability(10, 10, 310, 1_010))
    assert contrasts({broken: 4}, 4, others, 1_000) == []
    assert contrasts({broken: 5}, 5, {broken: 400}, 1_000) == []
    message = feature("message", "refund", "")
    only = {message: 9, feature("size", "refund", "small"): 9}
    assert [one.kind for one in contrasts(only, 9, {}, 1_000)] == ["message"]


def test_a_tail_is_that_of_drawing_without_putting_back() -> None:
    assert tail_probability(2, 2, 2, 4) == pytest.approx(1 / 6)
    assert tail_probability(0, 3, 5, 9) == pytest.approx(1)


def test_proposals_are_assertions_as_files_have_them() -> None:
    found = proposals(learnt([*NORMAL, order(0)]), Thresholds())
    read = parse("assertions:\n" + "".join(one.yaml for one in found))
    assert [to_json(each) for each in read] == [one.assertion for one in found]
    assert [(one.assertion, one.held, one.cases) for one in found] == [
        ({"name": "order-after-approve", "every": "order", "after": "approve"}, 1_000, 1_001),
        (
            {
                "name": "order-leads-to-invoice",
                "every": "order",
                "leads_to": "invoice",
                "within": "5s",
            },
            1_000,
            1_001,
        ),
    ]


@pytest.mark.parametrize(
    ("microseconds", "rounded"),
    [(0, 1_000), (1_001, 2_000), (450_000, 500_000), (700_000, SECOND), (30 * SECOND, 50 * SECOND)],
)
def test_durations_are_round_and_not_shorter(microseconds: int, rounded: int) -> None:
    assert round_up(microseconds) == rounded


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "under 256 bytes"), (256, "256 to 1,023 bytes"), (5_000_000, "1,048,576 bytes or more")],
)
def test_sizes_are_ranges(count: int, said: str) -> None:
    if count < 10_000:
        assert size_of(count) == said
    else:
        assert size_of(count).endswith("or more")


@pytest.mark.parametrize("seed", range(200))
def test_noise_is_no_change_also_where_it_comes_in_bursts(seed: int) -> None:
    dice = random.Random(seed)

    def spans() -> list[HitRate]:
        found = []
        for _ in range(12):
            share = dice.betavariate(5, 45) if seed % 2 else 0.1
            cases = dice.randrange(200, 800)
            found.append(HitRate(cases, sum(dice.random() < share for _ in range(cases))))
        return found

    assert share_state(spans(), spans(), 100) == "same"


@pytest.mark.parametrize("seed", range(50))
def test_noise_in_times_is_no_change_and_a_shift_is_one(seed: int) -> None:
    dice = random.Random(seed)

    def spans(slower: float) -> list[Sketch]:
        loads = [dice.uniform(0.8, 1.25) for _ in range(12)]
        return [
            sketch_of(dice.expovariate(1 / (load * slower * SECOND)) for _ in range(300))
            for load in loads
        ]

    before = spans(1)
    for quantile in (0.5, 0.99):
        assert time_state(before, spans(1), quantile, 100) == "same"
    assert time_state(before, spans(2), 0.5, 100) == "changed"


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        ((1_000, 100), (1_000, 300), "changed"),
        ((1_000, 999), (1_000, 900), "changed"),
        ((1_000, 0), (1_000, 30), "appeared"),
        ((1_000, 30), (1_000, 0), "vanished"),
        ((1_000, 0), (1_000, 4), "unclear"),
        ((50, 10), (1_000, 300), "unclear"),
        ((1_000_000, 500_000), (1_000_000, 505_000), "same"),  # certain, and too little to matter
        ((1_000, 0), (1_000, 0), "same"),
    ],
)
def test_what_has_changed(before: tuple[int, int], after: tuple[int, int], state: str) -> None:
    def spans(cases: int, hits: int) -> list[HitRate]:
        each = [hits // 12 + (span < hits % 12) for span in range(12)]
        return [HitRate(cases // 12 + (span < cases % 12), each[span]) for span in range(12)]

    assert share_state(spans(*before), spans(*after), 100) == state
    assert deviation([HitRate(5, 0)], [HitRate(5, 0)]) == 0


def test_of_variants_beyond_the_bound_only_conversations_are_counted_whatever_task_found_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expectations_job, "MOST_VARIANTS", 2)
    whole = Sums()
    for names in ("ab", "bbc"):
        part = Sums()
        for name in names:
            shape = {"messages": 1, "steps": [], "truncated": False}
            part.add(brief(order(0))._replace(variant=name, shape=shape), None)
        for line in part.lines():
            whole.take(line)
    assert {variant: one.count for (_, variant), one in whole.variants.items()} == {"a": 1, "b": 3}
    assert (whole.uncounted, whole.conversations) == (1, 5)
