"""What each folder of the dashboard may import: no import leads upwards, none into another tab.

vendor < core < ui < a tab's folder < shell < main.js
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.web.test_files import SCRIPTS, WEB

APP = WEB / "app"
BELOW = {"core": {"vendor"}, "ui": {"vendor", "core"}}
TABS = {
    "overview",
    "durations",
    "events",
    "conversations",
    "chain",
    "spacetime",
    "topology",
    "learn",
    "jobs",
    "admin",
}
TARGET = re.compile(r"""(?:\bfrom|\bimport)[\s(]*["']([^"']+)["']""")
# `import { a, b } from "…";`, or `const { a } = await import("…");` for what is loaded when needed.
IMPORTING = re.compile(r"import [^;]+;|const [^;=]+= await import\([^;]+;")
EXPORT = re.compile(r"^export (?:async )?(?:const|let|class|function\*?) (\w+)", re.MULTILINE)


def folder(path: Path) -> str:
    """The folder below ``app`` (or ``vendor``) that a script is in; ``main.js`` is its own."""
    return path.relative_to(APP).parts[0] if path.is_relative_to(APP) else "vendor"


def may_import(importer: str, imported: str) -> bool:
    if importer in {"shell", "main.js"}:
        return True
    return imported in {importer, *BELOW.get(importer, {"vendor", "core", "ui"})}


def strays(path: Path, text: str) -> list[str]:
    """The imports in the text of a script that its folder may not make."""
    found = []
    for target in TARGET.findall(text):
        imported = (path.parent / target).resolve()
        if not may_import(folder(path), folder(imported)):
            found.append(f"{path.relative_to(APP)} imports {imported.relative_to(APP)}")
    return found


def test_every_folder_is_one_of_the_rule() -> None:
    assert {folder(path) for path in SCRIPTS} == {"core", "ui", *TABS, "shell", "main.js"}


def test_no_import_leads_upwards_or_into_another_tab() -> None:
    found = [stray for path in SCRIPTS for stray in strays(path, path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("core/api.js", 'import { Icon } from "../ui/icons.js";'),
        ("ui/panel.js", 'import { Step } from "../chain/step.js";'),
        ("ui/event/drawer.js", 'import "../../shell/keys.js";'),
        ("jobs/jobs-tab.js", 'import { hasEnded } from "../chain/job.js";'),
        ("events/feed.js", 'const { go } = await import("../shell/go.js");'),
    ],
)
def test_an_import_upwards_is_named(path: str, line: str) -> None:
    [stray] = strays(APP / path, line)
    assert stray.startswith(f"{path} imports ")


def test_every_export_is_imported_by_another_script() -> None:
    texts = {path: path.read_text() for path in SCRIPTS}
    unused = [
        f"{path.relative_to(APP)} exports {name}"
        for path, text in texts.items()
        for name in EXPORT.findall(text)
        if not any(
            re.search(rf"\b{name}\b", statement)
            for other, words in texts.items()
            if other != path
            for statement in IMPORTING.findall(words)
        )
    ]
    assert not unused, "\n".join(unused)
