#!/usr/bin/env bash
# A vector clock's own order for a sort goes in a circle, so a sort by it puts an effect before its cause.
#
# The package vectorclock compares concurrent clocks, when asked to break ties, by their largest number and
# then by their JSON as texts, where 10 is before 9. What is ordered by cause stays so between two clocks; of
# three, the cause is before the effect, the effect before another clock, and that one before the cause. So
# it hangs on the order in which a list came whether a sort keeps causes first, and no count need be large.
#
# Seen: vectorclock 0.5.3, Python 3.11: cause < effect < other < cause; sorted: effect, other, cause.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check vectorclock==0.5.3
"$folder/venv/bin/python" - <<'CODE'
from functools import cmp_to_key

from vectorclock.vectorclock import VectorClock

clocks = {
    "cause": VectorClock({"a": 12, "b": 9}),
    "effect": VectorClock({"a": 12, "b": 10}),
    "other": VectorClock({"a": 12, "b": 2, "c": 1}),
}


def compare(one, two):
    return clocks[one].compare(clocks[two], tiebreak=True)


assert clocks["cause"] < clocks["effect"]
for name in ("cause", "effect"):
    assert clocks[name].compare(clocks["other"], tiebreak=False) == 0
for one, two in (("cause", "effect"), ("effect", "other"), ("other", "cause")):
    print(one, "is before", two)
    assert compare(one, two) < 0
names = sorted(["effect", "other", "cause"], key=cmp_to_key(compare))
print("sorted:", *names)
assert names == ["effect", "other", "cause"]
CODE
