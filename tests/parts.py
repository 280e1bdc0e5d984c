"""Which tests `make test` runs, and which only `make test-all`: their folder says it.

Left to the second of the folders of the first are the tests on PostgreSQL, which say the same of
another database, and the long ones, for which others stand in (tests/sampling.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

# From quick to slow, so that what is wrong shows as early as it can. The browser's come last
# because Playwright keeps an event loop in its process, in which no other test could run one.
QUICK = ("checks", "unit", "properties", "contract", "api", "story")
ORDER = (*QUICK[:-1], "tools", "spark", "integration", "clients", "docs", QUICK[-1], "web")

RELEASE = "release"  # of neither part: `make release-check` runs it, on what `make release` built

# Of the last folder, the files that take longest come first, or one process would still be at them
# when the other has done everything else.
LONGEST = (
    "conversations",
    "space_time",
    "trust",
    "accessibility",
    "learn",
    "chain",
    "filters",
    "find",
)


HERE = Path(__file__).parent


def folder_of(item: pytest.Item) -> str:
    """The folder of ``tests`` that a test is in."""
    return item.path.relative_to(HERE).parts[0]


def is_quick(item: pytest.Item) -> bool:
    """Whether `make test` runs a test."""
    parameters = getattr(item, "callspec", None)
    on_postgres = "postgres" in item.fixturenames or (  # type: ignore[attr-defined]
        parameters is not None
        and any(
            isinstance(each, str) and each == "postgresql" for each in parameters.params.values()
        )
    )
    return folder_of(item) in QUICK and not on_postgres and not item.get_closest_marker("long")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("parts").addoption(
        "--part",
        choices=("quick", "rest"),
        help="what `make test` runs, or what `make test-all` adds; without it, all that is given",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the other folders unread, which takes as long as the first hundreds of tests."""
    if collection_path.parent != HERE or not collection_path.is_dir():
        return None
    part, name = config.getoption("part"), collection_path.name
    return (part == "quick" and name not in QUICK) or (part == "rest" and name == RELEASE) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if part := config.getoption("part"):
        left = [item for item in items if is_quick(item) is (part == "rest")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if is_quick(item) is (part == "quick")]

    def place(item: pytest.Item) -> tuple[int, int]:
        folder = folder_of(item)
        name = item.path.stem.removeprefix("test_")
        early = LONGEST.index(name) if folder == ORDER[-1] and name in LONGEST else len(LONGEST)
        return ORDER.index(folder) if folder in ORDER else len(ORDER), early

    items.sort(key=place)  # stable: within a folder the order of the files stays
