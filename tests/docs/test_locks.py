"""What is installed is held to hashes, and those are of the versions that constraints.txt has."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from tests.docs.documents import CHECKOUT

LOCKS = tuple(f"requirements{name}.lock" for name in ("", "-spark", "-mcp", "-build", "-dev"))
PIN = re.compile(
    r"^([\w.-]+)==(\S+)((?: ; [^\\\n]+)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.M
)


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    return {plain(name): version for name, version, _ in PIN.findall(text)}


def constraints() -> dict[str, str]:
    lines = (CHECKOUT / "constraints.txt").read_text().split()
    return {plain(name): version for name, _, version in (line.partition("==") for line in lines)}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_of_a_lock_file_is_a_version_with_hashes(lock: str) -> None:
    assert PIN.sub("", (CHECKOUT / lock).read_text()).strip() == ""


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_has_the_versions_that_constraints_have(lock: str) -> None:
    locked = pins((CHECKOUT / lock).read_text())
    assert locked.items() <= constraints().items()


def test_everything_is_locked_once() -> None:
    locked = [pins((CHECKOUT / lock).read_text()) for lock in LOCKS]
    assert dict(pin for pins in locked for pin in pins.items()) == constraints()
    assert sum(map(len, locked)) == len(constraints())


def test_the_service_is_locked_apart_from_jobs_and_from_what_builds_it() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    needs = project["project"]["dependencies"], extras["spark"], extras["mcp"], extras["build"]
    for lock, those in zip(LOCKS, needs, strict=False):
        names = {plain(re.split(r"[\[<>=;]", need)[0]) for need in those}
        assert names <= pins((CHECKOUT / lock).read_text()).keys(), lock
    assert project["build-system"]["requires"] == extras["build"]


@pytest.mark.parametrize("folder", ["web/vendor", "tests/node", "tests/release"])
def test_packages_from_npm_are_locked_by_hashes_without_addresses(folder: str) -> None:
    lock = json.loads((CHECKOUT / folder / "package-lock.json").read_text())["packages"]
    needs = json.loads((CHECKOUT / folder / "package.json").read_text())
    kinds = ("dependencies", "optionalDependencies")
    project = lock.pop("")
    assert {kind: needs.get(kind) for kind in kinds} == {kind: project.get(kind) for kind in kinds}
    for name, package in lock.items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name


# By distribution: what derives from parts of it that it does not document. Any release may change
# those; then a bound no longer holds, or a transaction takes many trips, without an error.
DERIVED = {
    "uvicorn": "app/protocol.py",
    "aiosqlite": "app/store/database/one_trip.py",
}


@pytest.mark.parametrize("name", DERIVED)
def test_what_private_parts_are_derived_from_is_pinned_exactly(name: str) -> None:
    assert f"{name}." in (CHECKOUT / DERIVED[name]).read_text(), "derives from it no more"
    needs = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]
    [need] = [each for each in needs if plain(re.split(r"[\[<>=;]", each)[0]) == name]
    assert need.partition("==")[2] == constraints()[name]
