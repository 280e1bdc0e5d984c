"""The way of a message through capture, as docs/architecture.md tells it, is the code's."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TEXT = (CHECKOUT / "docs" / "architecture.md").read_text()
# caller, callee, and the callee's file
CALLS = re.findall(r"^\| `([\w.]+)` → `([\w.]+)` \| `([\w./]+)` \|", TEXT, re.MULTILINE)
MOST_CALLS = 15
SOURCES = {
    file: file.read_text()
    for suffix in ("py", "pyx")
    for file in (CHECKOUT / "app").rglob(f"*.{suffix}")
}


def bodies(name: str, file: Path) -> list[str]:
    """The sources of a function, or of a method of a class, in a file."""
    owner, _, function = name.rpartition(".")
    text = SOURCES[file]
    if file.suffix == ".pyx":
        start, deep = (rf"^cdef class {owner}:.*?^    ", "    ") if owner else ("^", "")
        pattern = rf"{start}c?p?def [\w ]*{function}\(.*?(?=^{deep}c?p?def |\Z)"
        return re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    if f"def {function}(" not in text:
        return []
    nodes = [*ast.walk(ast.parse(text))]
    scopes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == owner]
    members = [node for scope in scopes for node in scope.body] if owner else nodes
    return [
        ast.unparse(node)
        for node in members
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
    ]


def test_a_message_takes_few_calls_from_the_socket_to_its_row() -> None:
    assert CALLS[0][0] == "Diversion.data_received"
    assert CALLS[-1][2] == "app/store/capture/_rows.pyx"
    assert 10 < len(CALLS) <= MOST_CALLS


@pytest.mark.parametrize(("caller", "callee", "path"), CALLS)
def test_each_call_is_in_the_code(caller: str, callee: str, path: str) -> None:
    assert bodies(callee, CHECKOUT / path), f"{path} has no {callee}"
    callers = [body for file in SOURCES for body in bodies(caller, file)]
    name = callee.rpartition(".")[2]
    # The reader of deliveries calls one that it was given.
    assert any(re.search(rf"\b_?{name}\(", body) for body in callers), f"{caller}: no {name}()"
