"""What the files of the dashboard may contain and weigh."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tests.web.fake_server import WEB

IMPORT = re.compile(r"""(?:import|export)\s*[\w*{}\s,$]+\s*from\s*["']([^"']+)["']""")
# What is loaded when it is looked at.
LATE = re.compile(r"""await import\(["']([^"']+)["']\)""")
TRANSFERRED = [
    path
    for path in sorted(WEB.rglob("*"))
    if path.is_file() and path.suffix in {".html", ".js", ".css", ".svg", ".woff2"}
]
SCRIPTS = sorted((WEB / "app").rglob("*.js"))
MOST_BYTES = 220_000


def test_everything_a_browser_loads_weighs_less_than_220_kb_gzipped() -> None:
    weights = {path: len(gzip.compress(path.read_bytes(), 9)) for path in TRANSFERRED}
    heaviest = sorted(weights.items(), key=lambda item: -item[1])[:10]
    print(f"{sum(weights.values()):,} bytes gzipped, of {MOST_BYTES:,}")
    assert sum(weights.values()) < MOST_BYTES, heaviest


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


def reached(start: Path, *patterns: re.Pattern[str]) -> set[Path]:
    """A script, those that it imports, and so on."""
    found = {start}
    todo = [start]
    while todo:
        path = todo.pop()
        text = path.read_text()
        targets = {target for pattern in patterns for target in pattern.findall(text)}
        new = {(path.parent / target).resolve() for target in targets} - found
        found |= new
        todo += new
    return found


def test_every_import_is_a_file_of_ours() -> None:
    for path in [*SCRIPTS, *(WEB / "vendor").glob("*.js")]:
        text = path.read_text()
        for target in [*IMPORT.findall(text), *LATE.findall(text)]:
            assert (path.parent / target).is_file(), f"{path} imports {target}"


def test_every_script_is_imported_by_another() -> None:
    imported = reached(WEB / "app" / "main.js", IMPORT, LATE)
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


def test_every_script_is_asked_for_at_once_and_not_import_by_import() -> None:
    """But for those that are loaded when they are looked at, which are not asked for before."""
    page = (WEB / "index.html").read_text()
    preloaded = re.findall(r'<link rel="modulepreload" href="([^"]+)">', page)
    needed = reached(WEB / "app" / "main.js", IMPORT)
    names = sorted(path.relative_to(WEB).as_posix() for path in needed)
    assert preloaded == [name for name in names if name != "app/main.js"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(WEB)))
def test_every_imported_name_is_used(path: Path) -> None:
    text = path.read_text()
    imports = re.findall(r"import (?:(\w+)|\{([^}]*)\}|\* as (\w+)) from [^;]+;", text)
    rest = re.sub(r"import [^;]+;", "", text)
    names = [name for found in imports for group in found for name in re.findall(r"\w+", group)]
    assert [name for name in names if not re.search(rf"(?<!\w)(?<!\w\.){name}\b", rest)] == []
