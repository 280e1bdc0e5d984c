"""The OpenAPI document says what the service does: held to it by requests made from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import pytest

from app.api import parameters
from tests.api.conftest import World, WorldBounds, make_world, served
from tests.api.examiner import examine


# All phases: also each bound of each parameter, which is most of the requests.
@pytest.mark.parametrize(
    ("few", "phases"),
    [
        pytest.param(3, ("examples", "fuzzing", "stateful"), id="some"),
        pytest.param(8, (), marks=pytest.mark.long(50), id="all"),
    ],
)
async def test_requests_made_from_the_document_find_nothing(
    tmp_path: Path, few: int, phases: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parameters, "WAIT_SECONDS", 0.05)
    world = make_world(tmp_path, WorldBounds(sign_in_failures=10**9))
    async with served(world.app(), world.settings) as url:
        assert await examine(url, "admin:secret", tmp_path, few, *phases) > 200


async def test_every_operation_is_described(client: httpx2.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method.upper()} {path}"
            assert operation.get("description"), where
            assert "422" not in operation["responses"], where
            for parameter in operation.get("parameters", []):
                assert parameter.get("description"), f"{where} {parameter['name']}"
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/json"], where
                assert answer["description"] != "Successful Response", where
            if path.startswith(("/health/", "/itc_db/sign-in")):
                assert operation["security"] == [], where
            else:
                assert "401" in operation["responses"], where


async def test_examples_work_as_they_stand(client: httpx2.AsyncClient) -> None:
    """In this order: what is made is looked at, and only then removed."""
    document = (await client.get("/openapi.json")).json()
    for method in ("put", "get", "delete"):
        for path, operations in document["paths"].items():
            if method not in operations or path == "/itc_db/live":  # that does not end
                continue
            operation = operations[method]
            url, headers = example_request(path, operation)
            body = example_body(operation)
            asked = [await client.request(method, url, headers=headers, json=body)]
            if "prefer" in headers:  # now wait until the job has ended
                asked.append(await client.request(method, url, json=body))
            for answer in asked:
                said = f"{method} {url}: {answer.status_code} {answer.text}"
                assert str(answer.status_code) in operation["responses"], said
                assert answer.is_success or operation["operationId"] in TOO_LATE, said


async def test_what_an_operation_does_not_name_is_refused_and_never_ignored(
    client: httpx2.AsyncClient,
) -> None:
    document = (await client.get("/openapi.json")).json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            url, _ = example_request(path, operation)
            answer = await client.request(method, f"{url}&pagination=true&a=1")
            said = (answer.status_code, answer.json()["reason"])
            assert said == (400, "pagination: no such parameter; a: no such parameter"), url
            if "requestBody" not in operation:
                for body in (b"{}", chunks()):
                    answer = await client.request(method, url, content=body)
                    said = (answer.status_code, answer.json()["reason"])
                    reason = "this route takes no body: send the request without one"
                    assert said == (400, reason), f"{method} {url}"


async def chunks() -> AsyncIterator[bytes]:
    yield b"{}"


# Whose example has nothing to do in that order: the job has ended, the participant went with its
# events, only the list of reports knows their ids, and no collector is set.
TOO_LATE = {"cancel_job", "take_alias_back", "get_report", "send_spans"}


def example_request(path: str, operation: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The address and the headers that an operation's examples make."""
    given: dict[str, dict[str, str]] = {"path": {}, "query": {}, "header": {}}
    for parameter in operation.get("parameters", []):
        if "examples" in parameter:
            value = str(parameter["examples"]["default"]["value"])
            given[parameter["in"]][parameter["name"]] = value
    names = {name: quote(value, safe="") for name, value in given["path"].items()}
    return f"{path.format(**names)}?{urlencode(given['query'])}", given["header"]


def example_body(operation: dict[str, Any]) -> Any:
    """The body of the first example; None where none is needed."""
    body = operation.get("requestBody", {"required": False})
    return (
        body["content"]["application/json"]["schema"]["examples"][0] if body["required"] else None
    )


async def test_names_of_operations_are_unique(client: httpx2.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]

    assert len(names) == len(set(names))


async def test_the_document_needs_no_sign_in(world: World) -> None:
    async with served(world.app(), world.settings) as url, httpx2.AsyncClient() as client:
        assert (await client.get(f"{url}/openapi.json")).status_code == 200


async def test_no_page_loads_from_another_host(client: httpx2.AsyncClient) -> None:
    for path in ("/docs", "/redoc"):  # the dashboard's folder has one of its own
        assert (await client.get(path)).status_code == 404
