"""What the files of the dashboard may contain and weigh."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fontTools.misc import timeTools
from fontTools.ttLib import TTFont

from app.api.scripts import Scripts
from tests.web.service import WEB

AT_ONCE = re.compile(r"""(?:import|export)\s*[\w*{}\s,$]+\s*from\s*["']([^"']+)["']""")
LATER = re.compile(r"""\bimport\(["']([^"']+)["']\)""")
TRANSFERRED = [
    path
    for path in sorted(WEB.rglob("*"))
    if path.is_file() and path.suffix in {".html", ".js", ".css", ".svg", ".woff2"}
]
SCRIPTS = sorted((WEB / "app").rglob("*.js"))
REFERENCE = {WEB / "docs.html", WEB / "app" / "shell" / "reference.js"}  # a page beside it
BEGINNINGS = {WEB / "app" / "main.js", WEB / "app" / "shell" / "reference.js"}  # pages name them
# Gzipped, as it is served: what the page needs to begin, with one of its tabs until the API's first
# answer, with every drawing in that, and if everything in it is looked at.
MOST_TO_BEGIN, MOST_UNTIL_AN_ANSWER, MOST_WITH_A_TAB, MOST_IN_ALL = (
    75_000,
    120_000,
    160_000,
    320_000,
)
TABS = sorted((WEB / "app").glob("*/*-tab.js"))


JOINED = Scripts(
    {
        path.relative_to(WEB).as_posix(): path.read_bytes()
        for path in TRANSFERRED
        if path.suffix in {".html", ".js"}
    }
).bundles
# Which scripts are served with others, by the address: below a page's version.
FILES = {path: JOINED.get(path.relative_to(WEB).as_posix()) for path in SCRIPTS}
PARTS = {path for path, joined in FILES.items() if joined} - REFERENCE


def weight(paths: Iterable[Path]) -> int:
    return sum(len(gzip.compress(FILES.get(path) or path.read_bytes(), 9)) for path in paths)


def always() -> set[Path]:
    """What every view needs: the page itself, its styles, font and icons, and the first script."""
    apart = {*SCRIPTS, *(WEB / "vendor").glob("*.js"), *REFERENCE}
    return set(TRANSFERRED) - apart | {WEB / "app" / "main.js"}


def test_the_page_begins_with_less_than_75_kb_gzipped_and_has_less_than_320_in_all() -> None:
    to_begin, total = weight(always()), weight(always() | PARTS)
    print(f"{to_begin:,} bytes gzipped to begin with, {total:,} in all")
    assert to_begin < MOST_TO_BEGIN
    assert total < MOST_IN_ALL


@pytest.mark.parametrize("tab", TABS, ids=lambda path: path.stem)
def test_a_tab_has_less_than_120_kb_gzipped_and_160_with_every_drawing_in_it(tab: Path) -> None:
    parts = needed_at_once(tab, AT_ONCE, LATER) & PARTS
    first, with_drawings = weight(always() | {tab}), weight(always() | parts)
    print(f"{tab.stem}: {first:,} bytes gzipped, {with_drawings:,} with every drawing")
    assert first < MOST_UNTIL_AN_ANSWER
    assert with_drawings < MOST_WITH_A_TAB


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(WEB)))
def test_no_script_turns_data_into_markup_or_code(path: Path) -> None:
    text = path.read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write"
    assert not re.search(forbidden + r"|\beval\(|new Function|javascript:", text)


def test_no_file_names_another_host() -> None:
    for path in TRANSFERRED:
        if path.suffix == ".woff2":
            continue
        text = path.read_text()
        found = set(re.findall(r"https?://[\w.-]+", text)) - {"http://www.w3.org"}
        assert not found, path


def imports(path: Path, *patterns: re.Pattern[str]) -> list[Path]:
    """The scripts that a script imports, at once or when they are needed."""
    text = path.read_text()
    return [(path.parent / target).resolve() for each in patterns for target in each.findall(text)]


def test_every_import_is_a_file_of_ours() -> None:
    for path in [*SCRIPTS, *(WEB / "vendor").glob("*.js")]:
        for target in imports(path, AT_ONCE, LATER):
            assert target.is_file(), f"{path} imports {target}"


def test_every_script_is_imported_by_another() -> None:
    imported = {*BEGINNINGS, *REFERENCE}
    for path in [*SCRIPTS, *(WEB / "vendor").glob("*.js")]:
        imported.update(imports(path, AT_ONCE, LATER))
    assert {path for path in SCRIPTS if path not in imported} == set()


def test_libraries_come_with_their_licences() -> None:
    packages = json.loads((WEB / "vendor" / "package.json").read_text())["dependencies"]
    licences = {path.suffix[1:] for path in (WEB / "vendor").glob("LICENSE.*")}
    assert licences == {name.removesuffix("-core").rpartition("/")[2] for name in packages}


def test_the_font_is_the_same_bytes_whenever_it_is_made() -> None:
    """Else two services of one version would not have each other's page."""
    font = TTFont(WEB / "vendor" / "inter.woff2")
    made = datetime.fromtimestamp(font["head"].modified + timeTools.epoch_diff, UTC)
    assert made < datetime(2025, 1, 1, tzinfo=UTC), "by its authors"
    assert set(map(ord, "Az09é…")) <= font.getBestCmap().keys()
    assert [(axis.minValue, axis.maxValue) for axis in font["fvar"].axes] == [(400, 650)]


def needed_at_once(script: Path = WEB / "app" / "main.js", *patterns: re.Pattern[str]) -> set[Path]:
    """The scripts without which a script does not begin, by default the page's first."""
    found: set[Path] = set()
    todo = [script]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo.extend(imports(path, *(patterns or (AT_ONCE,))))
    return found


def test_every_view_has_a_script() -> None:
    listed = re.findall(r'\["([\w-]+)", "[\w -]+"\]', (WEB / "app/core/route.js").read_text())
    scripts = {path.stem.removesuffix("-tab") for path in TABS}
    assert scripts | {"rules"} == {*listed}  # those are `learn`, among the settings


LOOKED_AT = [*TABS, *(WEB / "app" / name for name in ("ui/event/drawer.js", "shell/help-text.js"))]


@pytest.mark.parametrize("part", LOOKED_AT, ids=lambda path: path.stem)
def test_a_part_of_the_page_is_loaded_when_it_is_looked_at(part: Path) -> None:
    assert part in SCRIPTS
    assert part not in needed_at_once()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(WEB)))
def test_every_imported_name_is_used(path: Path) -> None:
    text = path.read_text()
    imports = re.findall(r"import (?:(\w+)|\{([^}]*)\}|\* as (\w+)) from [^;]+;", text)
    rest = re.sub(r"import [^;]+;", "", text)
    names = [name for found in imports for group in found for name in re.findall(r"\w+", group)]
    assert [name for name in names if not re.search(rf"(?<!\w)(?<!\w\.){name}\b", rest)] == []
