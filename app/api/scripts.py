"""The dashboard's scripts, joined: one file for a page's first script, and one for each part.

By its plain name each is the ES module that it is. A browser asks for six of 70 files at a time: on
a line of 300 ms that takes five seconds. So a script that a page names, or that is imported later,
comes with all its imports that are not loaded yet. A module becomes a function, called once by the
first file that has it::

    modules["app/core/html.js"] ??= (() => { // its own lines follow, one for one
    const { default: htm } = modules["vendor/htm.js"];
    const html = htm.bind(h);
    return { html: html };
    })();

Both forms behave alike while imports make no circle, name what they take, and exports keep their
values. A joined file has no comments on lines of their own, which are a tenth of its weight.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from posixpath import dirname, join, normpath, relpath

# A statement follows a line's end; or a semicolon or brace, where a script is minified.
_IMPORT = re.compile(r'import(?<![^\n;}]import)\s*(\w*)[\s,]*({[^}]*})?\s*from\s*"(?P<of>.+?)";?')
_EXPORT_LIST = re.compile(r'export(?<![^\n;}]export)\s*{([^}]*)}(?:\s*from\s*"(?P<of>.+?)")?;?')
_DECLARATION = re.compile(
    r"export(?<![^\n;}]export) (default )?"
    r"((?:async )?(?:const|let|class|function\*?) (\w+)|(?=function\())"
)
_UNREAD = re.compile(r"(?<![^\n;}])(?:import|export)\b(?!\s*[(.])")  # left by these
_COMMENTS = re.compile(r"^[ ]*(?://.*|/\*\*[^*]*(?:\*(?!/)[^*]*)*\*/)$", re.M)  # of whole lines
_DYNAMIC = re.compile(r'import\("(.+?)"\)')
_TAGS = re.compile(r'<script [^>]*src="(.+?)"')


class Scripts:
    """The scripts of a folder, by their names in it, and the pages that name some.

    ``joined`` has those that come with what they need: the others come with these only. Raises
    `ValueError` for a script with imports or exports of another form than the dashboard's.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._texts = {name: files[name].decode() for name in files if name[-3:] in (".js", "tml")}
        # The importers of each file that is served joined: none if a page names it.
        self._importers: defaultdict[str, set[str]] = defaultdict(set)
        for name in [script for text in self._texts.values() for script in _TAGS.findall(text)]:
            self._add(name)
        self.bundles = {name: self._join(name) for name in self._importers}

    def _add(self, name: str, *importers: str) -> None:
        is_old = name in self._importers
        self._importers[name].update(importers)
        for module in () if is_old else self._dependencies(name):
            for target in _DYNAMIC.findall(self._texts[module]):
                self._add(_resolve(module, target), name)

    def _ancestors(self, name: str) -> set[str]:
        """Files that are loaded already, whichever file imports this one."""
        loads = [
            self._ancestors(importer) | self._dependencies(importer).keys()
            for importer in self._importers[name]
        ]
        return set[str].intersection(*loads) if loads else set()

    def _dependencies(self, name: str, modules: dict[str, None] | None = None) -> dict[str, None]:
        """A script and its direct imports, each after its own imports."""
        modules = {} if modules is None else modules
        if name in self._texts and name not in modules:
            text = self._texts[name]
            for match in (*_IMPORT.finditer(text), *_EXPORT_LIST.finditer(text)):
                if match["of"]:
                    self._dependencies(_resolve(name, match["of"]), modules)
            modules[name] = None
        return modules

    def _join(self, name: str) -> bytes:
        text, loaded = "const modules = (globalThis.modules ??= {});\n", self._ancestors(name)
        for module in self._dependencies(name):
            if module not in loaded:
                text += _function(module, self._texts[module], name)
        return f'{text}export default modules["{name}"].default;\n'.encode()


def _function(name: str, text: str, file: str) -> str:
    """A module as a function of another file."""
    exports: list[str] = []
    if not name.startswith("vendor/"):  # with the licences of others
        text = _COMMENTS.sub(lambda match: "\n" * match[0].count("\n"), text)

    def import_line(match: re.Match[str]) -> str:
        default, names, target = match.groups()
        if default and names:
            raise ValueError(f"{name}: {match[0]} is to be two imports")
        binding = f"{{ default: {default} }}" if default else names.replace(" as ", ": ")
        return f'const {binding} = modules["{_resolve(name, target)}"];'

    def export_names(match: re.Match[str]) -> str:
        source = f'modules["{_resolve(name, match["of"])}"].' if match["of"] else ""
        for local, _, alias in (export.strip().partition(" as ") for export in match[1].split(",")):
            exports.append(f"{alias or local}: {source}{local}")
        return ""

    def export_declaration(match: re.Match[str]) -> str:
        exports.append(f"{'default' if match[1] else match[3]}: {match[3] or 'unnamed'}")
        return match[2] or "const unnamed = "

    text = _IMPORT.sub(
        import_line, _EXPORT_LIST.sub(export_names, _DECLARATION.sub(export_declaration, text))
    )
    if rest := _UNREAD.search(text):
        raise ValueError(f"{name}: {text[rest.start() :].splitlines()[0]} cannot be joined")
    folder = relpath(dirname(name) or ".", dirname(file))  # between the two
    text = _DYNAMIC.sub(rf'import("./{folder}/\1")', text)
    return f'modules["{name}"] ??= (() => {{ {text}\nreturn {{ {", ".join(exports)} }};\n}})();\n'


def _resolve(name: str, target: str) -> str:
    return normpath(join(dirname(name), target))
