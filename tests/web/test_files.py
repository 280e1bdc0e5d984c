"""What the files of the dashboard may contain and weigh."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tests.web.fake_server import WEB

AT_ONCE = re.compile(r"""(?:import|export)\s*[\w*{}\s,$]+\s*from\s*["']([^"']+)["']""")
LATER = re.compile(r"""\bimport\(["']([^"']+)["']\)""")
TRANSFERRED = [
    path
    for path in sorted(WEB.rglob("*"))
    if path.is_file() and path.suffix in {".html", ".js", ".css", ".svg", ".woff2"}
]
SCRIPTS = sorted((WEB / "app").rglob("*.js"))
# Gzipped: what the page needs to begin with; and all of it, with what is loaded once looked at.
MOST_TO_BEGIN, MOST_IN_ALL = 180_000, 260_000


def test_the_page_begins_with_less_than_180_kb_gzipped_and_has_less_than_260_in_all() -> None:
    weights = {path: len(gzip.compress(path.read_bytes(), 9)) for path in TRANSFERRED}
    later = set(SCRIPTS) - needed_at_once()
    total, to_begin = sum(weights.values()), sum(weights[p] for p in weights.keys() - later)
    heaviest = sorted(weights.items(), key=lambda item: -item[1])[:10]
    print(f"{to_begin:,} bytes gzipped to begin with, {total:,} in all")
    assert to_begin < MOST_TO_BEGIN, heaviest
    assert total < MOST_IN_ALL, heaviest


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
    imported = {WEB / "app" / "main.js"}
    for path in [*SCRIPTS, *(WEB / "vendor").glob("*.js")]:
        imported.update(imports(path, AT_ONCE, LATER))
    assert {path for path in SCRIPTS if path not in imported} == set()


def test_the_vendored_libraries_versions_are_those_of_the_update_script() -> None:
    script = (WEB / "vendor" / "update.sh").read_text()
    readme = (WEB / "vendor" / "README.md").read_text()
    for package, version in re.findall(r"(?<![\w/])(@?[\w/-]+)@(\d[\d.]*)", script):
        if "==" in package:
            continue
        assert re.search(rf"{re.escape(package)}[^|]*\| {re.escape(version)} \|", readme), package
    licences = re.findall(r"`(LICENSE\.\w+)`", readme)
    assert licences
    assert all((WEB / "vendor" / name).is_file() for name in licences)


def needed_at_once() -> set[Path]:
    """The scripts without which the page does not begin."""
    found: set[Path] = set()
    todo = [WEB / "app" / "main.js"]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo.extend(imports(path, AT_ONCE))
    return found


def test_every_script_of_the_first_page_is_asked_for_at_once_and_not_import_by_import() -> None:
    page = (WEB / "index.html").read_text()
    preloaded = re.findall(r'<link rel="modulepreload" href="([^"]+)">', page)
    names = sorted(path.relative_to(WEB).as_posix() for path in needed_at_once())
    assert preloaded == [name for name in names if name != "app/main.js"]


@pytest.mark.parametrize("drawing", ["spacetime/painter.js", "topology/map.js"])
def test_a_drawing_is_loaded_when_it_is_looked_at(drawing: str) -> None:
    assert WEB / "app" / drawing in SCRIPTS
    assert WEB / "app" / drawing not in needed_at_once()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(WEB)))
def test_every_imported_name_is_used(path: Path) -> None:
    text = path.read_text()
    imports = re.findall(r"import (?:(\w+)|\{([^}]*)\}|\* as (\w+)) from [^;]+;", text)
    rest = re.sub(r"import [^;]+;", "", text)
    names = [name for found in imports for group in found for name in re.findall(r"\w+", group)]
    assert [name for name in names if not re.search(rf"(?<!\w)(?<!\w\.){name}\b", rest)] == []
