"""Which modules an import loads: followed through our own code, without running any of it."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

Chain: TypeAlias = tuple[str, ...]


class Tree:
    """The modules below a folder."""

    def __init__(self, root: Path, packages: Iterable[str]) -> None:
        files = [
            file
            for package in packages
            for file in (root / package).rglob("*.py")
            if "__pycache__" not in file.parts
        ]
        self.files = {_name(file.relative_to(root)): file for file in files}

    def within(self, room: str) -> list[str]:
        """The modules of a room, which is a package or one module."""
        found = [name for name in self.files if name == room or name.startswith(room + ".")]
        assert found, f"{room} has moved: fix this test"
        return sorted(found)

    def loaded_by(self, room: str) -> dict[str, Chain]:
        """Everything that importing a room's modules loads, each with a shortest chain to it.

        Our own modules are followed to what they import. Others are named, and not looked into.
        """
        starts = self.within(room)
        chains: dict[str, Chain] = {start: (start,) for start in starts}
        waiting = deque(starts)
        while waiting:
            here = waiting.popleft()
            for following in self._following(here):
                if following not in chains:
                    chains[following] = (*chains[here], following)
                    if following in self.files:
                        waiting.append(following)
        return chains

    def _following(self, module: str) -> Iterator[str]:
        yield from _parents(module)
        for name, of_package in imports_at_once(self.files[module]):
            # What is imported from a package is a module of its own, or a name within the package.
            if of_package is None or name in self.files:
                yield name
                yield from _parents(name)
            else:
                yield of_package
                yield from _parents(of_package)


@cache
def imports_at_once(file: Path) -> tuple[tuple[str, str | None], ...]:
    """(module, None), or (package.name, package), for what importing a file imports right away.

    An import in a function waits for its call; one for the type checker never happens.
    """
    return tuple(_imports(ast.parse(file.read_text()).body))


def _imports(statements: Iterable[ast.AST]) -> Iterator[tuple[str, str | None]]:
    for node in statements:
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports here are absolute"
            assert node.module is not None
            yield from ((f"{node.module}.{alias.name}", node.module) for alias in node.names)
        elif isinstance(node, ast.If) and _is_for_types(node.test):
            yield from _imports(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imports(ast.iter_child_nodes(node))


def _is_for_types(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _parents(module: str) -> Iterator[str]:
    while module := module.rpartition(".")[0]:
        yield module


def _name(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
