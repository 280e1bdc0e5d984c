"""docs/api.md and the OpenAPI document name the same routes, parameters and fields."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.main import create_app
from app.settings import load_settings
from tests.docs.documents import CHECKOUT, blocks, prose

API = CHECKOUT / "docs" / "api.md"


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The service's own description of itself."""
    settings = load_settings(data_dir=tmp_path_factory.mktemp("data"), auth="none")
    return create_app(settings).openapi()


@pytest.fixture(scope="module")
def words() -> set[str]:
    """Every name that the document sets as code, which may continue on the next line."""
    fenced = " ".join(block.text for block in blocks(API))
    marked = " ".join(re.findall(r"`([^`]+)`", prose(API)))
    return {word.lower() for word in re.findall(r"[A-Za-z][\w-]*", f"{fenced} {marked}")}


def test_the_table_of_routes_is_the_services_own(described: dict[str, Any]) -> None:
    rows = re.findall(r"^\| ((?:`[A-Z]+` )+)`(/[^`]*)` \|", API.read_text(), re.MULTILINE)
    served = {
        (method.upper(), path) for path, methods in described["paths"].items() for method in methods
    }
    named = [(method, path) for methods, path in rows for method in re.findall("[A-Z]+", methods)]
    assert sorted(named) == sorted(served)


def test_every_parameter_is_named(described: dict[str, Any], words: set[str]) -> None:
    parameters = {
        parameter["name"]
        for methods in described["paths"].values()
        for operation in methods.values()
        for parameter in operation.get("parameters", [])
    }
    assert parameters
    assert parameters <= words


def test_every_field_is_named(described: dict[str, Any], words: set[str]) -> None:
    fields = {
        f"{name}.{field}"
        for name, schema in described["components"]["schemas"].items()
        for field in schema["properties"]
    }
    assert fields
    assert not {one for one in fields if one.partition(".")[2] not in words}


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
