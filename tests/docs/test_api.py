"""docs/api.md and docs/api/ name the routes, parameters and fields of the OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.main import create_app
from app.settings import load_settings
from tests.docs.documents import CHECKOUT
from tools.api_pages import FOLDER, pages

API = CHECKOUT / "docs" / "api.md"


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The service's own description of itself."""
    settings = load_settings(data_dir=tmp_path_factory.mktemp("data"), auth="none")
    return create_app(settings).openapi()


def test_the_table_of_subjects_has_a_row_for_each_page(described: dict[str, Any]) -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(api/(\w+)\.md\) \|", API.read_text(), re.MULTILINE)
    assert all(name == file for name, file in rows)
    assert sorted(f"{file}.md" for _, file in rows) == sorted({*pages(described)} - {"README.md"})


def test_the_first_page_lists_the_services_routes(described: dict[str, Any]) -> None:
    text = pages(described)["README.md"]
    listed = re.findall(r"^\| `([A-Z]+)` `(/[^`]*)` \|", text, re.MULTILINE)
    served = [
        (method.upper(), path) for path, methods in described["paths"].items() for method in methods
    ]
    assert sorted(listed) == sorted(served)


def test_the_pages_are_made_of_the_document_as_it_is(described: dict[str, Any]) -> None:
    written = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    assert written == pages(described), "python -m tools.api_pages writes them"


def test_the_pages_have_every_route_parameter_and_field(described: dict[str, Any]) -> None:
    text = "".join(path.read_text() for path in FOLDER.glob("*.md"))
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert f"## `{method.upper()} {path}`" in text
            assert all(f"| `{each['name']}`" in text for each in operation.get("parameters", []))
    for schema in described["components"]["schemas"].values():
        assert all(f"| `{name}` |" in text for name in schema["properties"])


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
