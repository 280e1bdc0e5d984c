"""Assertions: what should hold of a virtual host's messages, as people write it into a file.

``language`` reads and writes them, ``assertion`` says what there are, ``judging`` what each comes
to in one conversation. Nothing here does I/O.
"""

from model.assertions.assertion import (
    Acknowledged,
    After,
    Assertion,
    AtMost,
    Basis,
    InvalidAssertionError,
    LeadsTo,
    NeverConcurrent,
    TypePattern,
)
from model.assertions.judging import AssertionVerdict, Causation, Finding, judge
from model.assertions.language import from_json, to_json, to_yaml, yaml_item

__all__ = [
    "Acknowledged",
    "After",
    "Assertion",
    "AssertionVerdict",
    "AtMost",
    "Basis",
    "Causation",
    "Finding",
    "InvalidAssertionError",
    "LeadsTo",
    "NeverConcurrent",
    "TypePattern",
    "from_json",
    "judge",
    "to_json",
    "to_yaml",
    "yaml_item",
]
