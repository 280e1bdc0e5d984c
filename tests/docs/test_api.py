"""docs/api.md goes with the OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.main import create_app
from app.settings import load_settings
from tests.docs.documents import CHECKOUT

API = CHECKOUT / "docs" / "api.md"


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The service's own description of itself."""
    settings = load_settings(data_dir=tmp_path_factory.mktemp("data"), auth="none")
    return create_app(settings).openapi()


def test_the_table_of_subjects_has_a_row_for_each(described: dict[str, Any]) -> None:
    table = API.read_text().partition("| subject |")[2].partition("\n\n")[0]
    subjects = {
        tag
        for methods in described["paths"].values()
        for operation in methods.values()
        for tag in operation["tags"]
    }
    assert sorted(re.findall(r"^\| (\w+) \|", table, re.MULTILINE)) == sorted(subjects)


def test_schemas_that_are_named_exist(described: dict[str, Any]) -> None:
    named = set(re.findall(r"\(`([A-Z][a-z]+[A-Za-z]*)`\)", API.read_text()))
    assert len(named) > 10
    assert named <= described["components"]["schemas"].keys()


def test_every_status_is_explained(described: dict[str, Any]) -> None:
    text = API.read_text()
    statuses = {
        status
        for methods in described["paths"].values()
        for operation in methods.values()
        for status in operation["responses"]
    }
    assert statuses
    assert not {status for status in statuses if not re.search(rf"\b{status}\b", text)}
