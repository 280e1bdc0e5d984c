"""The OpenAPI document says what the service does: held to it by requests made from it."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import httpx
import pytest

from tests.api.conftest import World, make_world, served

HERE = Path(__file__).parent
# `make test` sends some hundreds of requests; SCHEMATHESIS_EXAMPLES=150 sends over 5,000.
EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "8")


async def test_requests_made_from_the_document_find_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path, wait_seconds_max=0.05, sign_in_failures=10**9)
    async with served(world.app(), world.settings) as url:
        examiner = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
            *("--config-file", HERE / "schemathesis.toml", "--no-color"),
            *("run", f"{url}/openapi.json", "--auth", "admin:secret"),
            *("--max-examples", EXAMPLES, "--generation-database", "none"),
            cwd=tmp_path,  # where it leaves its notes
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await examiner.communicate())[0].decode()

    assert examiner.returncode == 0, output
    [generated] = re.findall(r"^\s*([0-9]+) generated", output, re.MULTILINE)
    print(f"{generated} requests")
    assert int(generated) > 200


async def test_every_operation_is_described(client: httpx.AsyncClient) -> None:
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
            if path.startswith("/health/"):
                assert operation["security"] == [], where
            else:
                assert "401" in operation["responses"], where


async def test_names_of_operations_are_unique(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]

    assert len(names) == len(set(names))


async def test_the_document_needs_no_sign_in(world: World) -> None:
    async with served(world.app(), world.settings) as url, httpx.AsyncClient() as client:
        assert (await client.get(f"{url}/openapi.json")).status_code == 200


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_no_page_loads_from_another_host(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404
