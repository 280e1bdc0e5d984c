"""What a job would have found of a few orders, in the shape of the reports' files."""

from __future__ import annotations

from typing import Any

from model.times import iso_time

Json = dict[str, Any]

FLOW = {
    "messages": 2,
    "steps": [
        {
            "type": "order.new",
            "count": 1,
            "failures": [],
            "waits": False,
            "also_after": [],
            "steps": [
                {
                    "type": "invoice",
                    "count": 2,
                    "failures": ["died billing rejected"],
                    "waits": False,
                    "also_after": [],
                    "steps": [],
                }
            ],
        }
    ],
    "truncated": False,
}
_TAKEN = {"p50": 0.2, "p99": 1.5, "p999": 2.5, "slow_from": 8.0}
_LEFT_OUT = {"conversations": 998, "young": 2, "unknown": 1, "cut": 0}
_SURE = {"complete": True, "gaps": [], "sound": True, "doubts": [], "quiet": 0, "caveats": []}
CORRELATION_FACTS: Json = {
    "events": 40,
    "looked_at": 40,
    "looked_at_all": True,
    "reactions": 20,
    "left_out": {"bodies not JSON": 2},
}
_FIGURES: Json = {
    "publishes": 20,
    "support": 1.0,
    "ambiguity": 1.0,
    "chance": None,
    "begun": 1.0,
    "values": 20,
}
CORRELATIONS: Json = {
    "proposals": [
        {
            "number": 1,
            "kind": "parent",
            "rules": [
                {
                    "name": "found-header-x-because",
                    "kind": "parent",
                    "child": "$message.header#/x-because",
                    "parent": "$message.property#/message_id",
                    "sure": False,
                }
            ],
            "parent": "$message.property#/message_id",
            "child": "$message.header#/x-because",
            **_FIGURES,
            "agreement": None,
            "linked": 0,
            "also": [],
            "examples": [{"publish": 3, "delivery": 2, "value": "abc"}],
            "users": [{"user": "billing", "share": 1.0, "support": 0.9, "reactions": 40}],
        }
    ],
    "refused": [
        {
            "parent": "$message.header#/tenant",
            "child": "$message.header#/tenant",
            **_FIGURES,
            "why": "as often by chance",
            "agreement": None,
        }
    ],
    "places": [{"place": "$message.header#/at", "why": "a time"}],
    "programs": [
        {
            "receiver": {"number": 1, "name": "shop #1"},
            "publisher": {"number": 2, "name": "shop #2"},
            "publishes": 20,
            "share": 1.0,
            "policy": "client",
            "advice": "by client they are one",
        }
    ],
    "in_hand": [
        {
            "participant": {"number": 1, "name": "shop #1"},
            "publishes": 20,
            "linked": 20,
            "agreement": 1.0,
            "examples": [{"publish": 3, "delivery": 2, "value": None}],
        }
    ],
}


def made(work: Json) -> tuple[Json, Json]:
    """The facts of a report of any kind, and its lists."""
    asked: Json = work["asked"]
    if work["report"] == "expectations":
        counts = {"variants_count": 2, "outliers_count": 6, "counted_all": True}
        return {**_LEFT_OUT, **counts}, _expectations()
    if work["report"] == "comparison":
        times = {name: iso_time(asked[name]) for name in ("before_since", "before_until")}
        side = {**_LEFT_OUT, **_SURE}
        facts = {**times, "before": side, "after": side, "changes": 1, "counted_all": True}
        return facts, _differences()
    if work["report"] == "correlations":
        return CORRELATION_FACTS, CORRELATIONS
    if work["report"] == "assertions":
        verdicts = {"verdict": "violated", "holds": 1, "violated": 1, "unknown": 1}
        return verdicts, {"results": _results(asked)}
    raise ValueError(f"there are no reports of {work['report']}")


def _expectations() -> Json:
    reason = {"kind": "missing", "type": "order.new", "other": "invoice"}
    effect = {"type": "invoice", "cases": 998, "led": 992, "share": 0.993988, "young": 2}
    return {
        "types": [
            {
                "type": "order.new",
                "messages": 1_000,
                "waited": None,
                "leads_to": [
                    {**effect, "many": [{"count": 1, "times": 992}], "within": _TAKEN},
                ],
                "after": [{"type": "login", "cases": 1_000, "held": 1_000}],
            }
        ],
        "variants": [
            {
                "variant": "0123456789abcdef",
                "type": "order.new",
                "count": 992,
                "share": 0.993988,
                "rare": False,
                "examples": [1],
                "lasted": {"p50": 0.4, "p99": 2.0},
                "flow": FLOW,
            }
        ],
        "outliers": [
            {
                "event": 3,
                "at": "2026-01-01T12:00:00.000000Z",
                "type": "order.new",
                "variant": "fedcba9876543210",
                "reasons": [{**reason, "event": 3, "seconds": None, "count": None}],
            }
        ],
        "groups": [
            {
                **reason,
                "count": 6,
                "examples": [3],
                "in_common": [
                    {
                        "kind": "participant",
                        "type": None,
                        "value": "billing@10.0.0.6",
                        "having": 6,
                        "of": 6,
                        "others_having": 100,
                        "of_others": 992,
                        "score": 0.8992,
                        "chance": 0.000012,
                    }
                ],
            }
        ],
        "proposals": [
            {
                "assertion": {
                    "name": "order-new-leads-to-invoice",
                    "every": "order.new",
                    "leads_to": "invoice",
                    "within": "10s",
                },
                "yaml": "  - name: order-new-leads-to-invoice\n    every: order.new\n"
                '    leads_to: invoice\n    within: "10s"\n',
                "share": 0.993988,
                "cases": 998,
                "held": 992,
            }
        ],
    }


def _differences() -> Json:
    def side(count: int) -> Json:
        return {"cases": 998, "count": count, "share": round(count / 998, 6)}

    gone = {"state": "vanished", "before": side(992), "after": side(0)}
    same = {"state": "same", "before": side(499), "after": side(499)}
    return {
        "types": [{"type": "invoice", **same}],
        "effects": [
            {
                "type": "order.new",
                "effect": "invoice",
                "share": gone,
                "p50": {"state": "unclear", "before": 0.2, "after": None},
                "p99": {"state": "unclear", "before": 1.5, "after": None},
            }
        ],
        "variants": [
            {
                "variant": "0123456789abcdef",
                "type": "order.new",
                **same,
                "examples": {"before": [1], "after": []},
                "flow": FLOW,
            }
        ],
    }


def _results(asked: Json) -> list[Json]:
    """As if an order's invoice had been late, and of the third assertion nothing were known."""
    late = {
        "verdict": "violated",
        "event": 1,
        "root": 1,
        "at": "2026-01-02T03:04:05.678901Z",
        "sentence": "order.new led to no invoice within 30.0 s",
        "others": [],
    }
    told = [
        {"verdict": "violated", "why": None, "holds": 2, "violated": 1, "unknown": 0},
        {"verdict": "holds", "why": None, "holds": 3, "violated": 0, "unknown": 0},
        {"verdict": "unknown", "why": "it has gaps", "holds": 0, "violated": 0, "unknown": 0},
    ]
    return [
        {
            "assertion": assertion,
            **result,
            "items": [late] if result["violated"] else [],
            "truncated": False,
        }
        for assertion, result in zip(asked["assertions"], told, strict=False)
    ]
