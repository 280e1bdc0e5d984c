"""Rules of links that stand in a file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.errors import SettingsError
from app.main import link_rules
from app.tracker.links import BUILT_IN

DOCUMENT = Path(__file__).parents[2] / "docs" / "links.md"


def test_the_example_of_the_document_is_read_behind_the_built_in_rules(tmp_path: Path) -> None:
    (example,) = re.findall(r"```json\n(\[.*?\])\n```", DOCUMENT.read_text(), re.DOTALL)
    path = tmp_path / "rules.json"
    path.write_text(example)
    *before, own = link_rules(path, built_in=True)
    assert tuple(before) == BUILT_IN
    assert own.name == "shipped-for"
    assert link_rules(path, built_in=False) == (own,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Input data was truncated"),
        ("{}", "Expected `array`, got `object`"),
        ("[1]", "a rule is an object"),
        ('[{"name": "a", "kind": "parent", "child": "$message.header"}]', "rule 'a': child: "),
        (json.dumps([rule.to_json() for rule in BUILT_IN[:1]] * 2), BUILT_IN[0].name),
    ],
)
def test_a_mistake_is_said_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(SettingsError) as told:
        link_rules(path, built_in=False)
    assert str(told.value).startswith(f"ITC_LINK_RULES: {path}: ")
    assert said in str(told.value)
    assert "\n" not in str(told.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        link_rules(tmp_path / "none", built_in=True)
