"""Published and cross-checked cases: every one must run, and none may be left out."""

import json
from collections import Counter
from pathlib import Path

import pytest

from itc import ClockError, MalformedError, Stamp, decode, encode, events, ids, seed
from itc.trees import event_from_relative, event_to_relative

VECTORS = json.loads(Path(__file__).with_name("itc_vectors.json").read_text())["vectors"]
COUNTS = {
    "encode": 58,
    "leq": 44,
    "fill": 32,
    "grow": 18,
    "run": 12,
    "join_event": 11,
    "sum": 9,
    "split": 7,
    "norm_id": 7,
    "norm_event": 7,
    "reject": 6,
    "reject_decode": 6,
    "event": 5,
    "event_nonnormal": 2,
    "encode_nonnormal": 2,
}


def tuples(tree):
    return tuple(tuples(part) for part in tree) if isinstance(tree, list) else tree


def stamp_of(pair):
    return Stamp.from_trees(tuples(pair[0]), tuples(pair[1]))


def owner(tree):
    return Stamp.from_trees(tuples(tree), 0)


def id_of(stamp):
    return stamp.trees()[0]


def run_history(vector):
    stamps = {name: stamp_of(pair) for name, pair in vector.get("start", {}).items()}
    for op, inputs, outputs in vector["ops"]:
        given = [stamps[name] for name in inputs]
        result = seed() if op == "seed" else getattr(given[0], op)(*given[1:])
        results = result if isinstance(result, tuple) else (result,)
        assert len(results) == len(outputs)
        stamps.update(zip(outputs, results, strict=True))
    return stamps


def check_run(vector):
    stamps = run_history(vector)
    for name, pair in [*vector.get("expect", {}).items(), *vector["all_states"].items()]:
        assert stamps[name].trees() == tuples(pair), name
    assert set(vector["all_hex"]) == set(stamps)
    for name, code in vector["all_hex"].items():
        assert encode(stamps[name]).hex() == code, name
        assert decode(bytes.fromhex(code)) == stamps[name]
    for a, b, expected in vector.get("leq", []):
        assert stamps[a].leq(stamps[b]) is expected, (a, b)
    for op, (a, b) in vector.get("must_fail", []):
        with pytest.raises(ClockError):
            getattr(stamps[a], op)(stamps[b])


def check_split(vector):
    assert [id_of(half) for half in owner(vector["id"]).fork()] == [*tuples(vector["expect"])]


def check_sum(vector):
    for a, b in ((vector["a"], vector["b"]), (vector["b"], vector["a"])):
        assert id_of(owner(a).join(owner(b))) == tuples(vector["expect"])


def check_norm_id(vector):
    assert id_of(owner(vector["id"])) == tuples(vector["expect"])


def check_norm_event(vector):
    assert stamp_of((0, vector["event"])).trees()[1] == tuples(vector["expect"])


def check_leq(vector):
    assert stamp_of((0, vector["a"])).leq(stamp_of((0, vector["b"]))) is vector["expect"]


def check_join_event(vector):
    joined = stamp_of((0, vector["a"])).join(stamp_of((0, vector["b"])))
    assert joined.trees()[1] == tuples(vector["expect"])


def check_fill(vector):
    tree = event_from_relative(vector["event"])
    filled = events.fill(ids.normal(vector["id"]), tree)
    assert event_to_relative(filled) == tuples(vector["expect"])
    assert (filled is tree) == (vector["expect"] == vector["event"])


def check_grow(vector):
    grown, cost = events.grow(ids.normal(vector["id"]), event_from_relative(vector["event"]))
    expansions, depth = divmod(cost, events.EXPANSION)
    assert event_to_relative(grown) == tuples(vector["expect"])
    assert 1000 * expansions + depth == vector["cost"]


def check_event(vector):
    stamp = stamp_of((vector["id"], vector["event"]))
    assert stamp.event().trees()[1] == tuples(vector["expect"])
    assert stamp.leq(stamp.event())
    assert not stamp.event().leq(stamp)


def check_encode(vector):
    stamp = stamp_of(vector["stamp"])
    code = bytes.fromhex(vector["hex"])
    assert encode(stamp) == code
    assert len(code) == (vector["bits"] + 7) // 8
    assert decode(code) == stamp


def check_encode_nonnormal(vector):
    code = bytes.fromhex(vector["hex"])
    with pytest.raises(MalformedError):
        decode(code)
    assert encode(stamp_of(vector["stamp"])) != code


def check_reject(vector):
    if vector["op"] == "event":
        with pytest.raises(ClockError):
            stamp_of(vector["input"]).event()
    else:
        assert vector["op"] == "sum"
        a, b = vector["input"]
        with pytest.raises(ClockError):
            owner(a).join(owner(b))


def check_reject_decode(vector):
    with pytest.raises(MalformedError):
        decode(bytes.fromhex(vector["hex"]))


CHECKS = {
    "run": check_run,
    "split": check_split,
    "sum": check_sum,
    "norm_id": check_norm_id,
    "norm_event": check_norm_event,
    "leq": check_leq,
    "join_event": check_join_event,
    "fill": check_fill,
    "grow": check_grow,
    "event": check_event,
    "event_nonnormal": check_event,
    "encode": check_encode,
    "encode_nonnormal": check_encode_nonnormal,
    "reject": check_reject,
    "reject_decode": check_reject_decode,
}


def test_every_kind_of_vector_is_run_and_none_is_missing():
    assert Counter(vector["kind"] for vector in VECTORS) == COUNTS
    assert sum(COUNTS.values()) == 226
    assert set(CHECKS) == set(COUNTS)


@pytest.mark.parametrize("kind", COUNTS)
def test_vectors(kind):
    for vector in VECTORS:
        if vector["kind"] == kind:
            CHECKS[kind](vector)
