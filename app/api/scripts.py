"""The dashboard's scripts, joined: one file for what a page begins with, and one for each part.

By its plain name each is the ES module that it is. Of 70 a browser asks for six at a time: on a
line of 300 ms that takes five seconds. So a script that a page names, and one that is imported when
it is looked at, comes with all that it needs and that is not there yet. A module becomes a
function, called once by whichever file is there first::

    modules["app/core/html.js"] ??= (() => { // its own lines follow, one for one
    const { default: htm } = modules["vendor/htm.js"];
    const html = htm.bind(h);
    return { html: html };
    })();

That is the same while imports make no circle, name what they take, and an export keeps its value.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from posixpath import dirname, join, normpath, relpath

# A statement follows a line's end; or a semicolon or brace, where a script is minified.
_IMPORTED = re.compile(r'import(?<![^\n;}]import)\s*(\w*)[\s,]*({[^}]*})?\s*from\s*"(?P<of>.+?)";?')
_LISTED = re.compile(r'export(?<![^\n;}]export)\s*{([^}]*)}(?:\s*from\s*"(?P<of>.+?)")?;?')
_DECLARED = re.compile(
    r"export(?<![^\n;}]export) (default )?"
    r"((?:async )?(?:const|let|class|function\*?) (\w+)|(?=function\())"
)
_LEFT = re.compile(r"(?<![^\n;}])(?:import|export)\b(?!\s*[(.])")  # what none of these takes
_LATER = re.compile(r'import\("(.+?)"\)')
_NAMED = re.compile(r'<script [^>]*src="(.+?)"')


class Scripts:
    """The scripts of a folder, by their names in it, and the pages that name some.

    ``joined`` has those that come with what they need: the others come with these only. Raises
    `ValueError` for a script with imports or exports of another form than the dashboard's.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._texts = {name: files[name].decode() for name in files if name[-3:] in (".js", "tml")}
        # What is served joined, and which of these files import it: none if a page names it.
        self._importers: defaultdict[str, set[str]] = defaultdict(set)
        for name in [each for text in self._texts.values() for each in _NAMED.findall(text)]:
            self._add(name)
        self.joined = {name: self._join(name) for name in self._importers}

    def _add(self, name: str, *importers: str) -> None:
        looked_at = name in self._importers
        self._importers[name].update(importers)
        for each in () if looked_at else self._needed(name):
            for target in _LATER.findall(self._texts[each]):
                self._add(_beside(each, target), name)

    def _there(self, name: str) -> set[str]:
        """What is there already, whichever file asks for this one."""
        each = [self._there(one) | self._needed(one).keys() for one in self._importers[name]]
        return set[str].intersection(*each) if each else set()

    def _needed(self, name: str, found: dict[str, None] | None = None) -> dict[str, None]:
        """A script and what it imports at once, each after what it imports itself."""
        found = {} if found is None else found
        if name in self._texts and name not in found:
            text = self._texts[name]
            for match in (*_IMPORTED.finditer(text), *_LISTED.finditer(text)):
                if match["of"]:
                    self._needed(_beside(name, match["of"]), found)
            found[name] = None
        return found

    def _join(self, name: str) -> bytes:
        text, there = "const modules = (globalThis.modules ??= {});\n", self._there(name)
        for each in self._needed(name):
            if each not in there:
                text += _function(each, self._texts[each], name)
        return f'{text}export default modules["{name}"].default;\n'.encode()


def _function(name: str, text: str, within: str) -> str:
    """A module as a function of another file."""
    exported: list[str] = []

    def imported(found: re.Match[str]) -> str:
        default, names, target = found.groups()
        if default and names:
            raise ValueError(f"{name}: {found[0]} is to be two imports")
        taken = f"{{ default: {default} }}" if default else names.replace(" as ", ": ")
        return f'const {taken} = modules["{_beside(name, target)}"];'

    def listed(found: re.Match[str]) -> str:
        of = f'modules["{_beside(name, found["of"])}"].' if found["of"] else ""
        for own, _, given in (each.strip().partition(" as ") for each in found[1].split(",")):
            exported.append(f"{given or own}: {of}{own}")
        return ""

    def declared(found: re.Match[str]) -> str:
        exported.append(f"{'default' if found[1] else found[3]}: {found[3] or 'unnamed'}")
        return found[2] or "const unnamed = "

    text = _IMPORTED.sub(imported, _LISTED.sub(listed, _DECLARED.sub(declared, text)))
    if left := _LEFT.search(text):
        raise ValueError(f"{name}: {text[left.start() :].splitlines()[0]} cannot be joined")
    way = relpath(dirname(name) or ".", dirname(within))  # between the two
    text = _LATER.sub(rf'import("./{way}/\1")', text)
    return f'modules["{name}"] ??= (() => {{ {text}\nreturn {{ {", ".join(exported)} }};\n}})();\n'


def _beside(name: str, target: str) -> str:
    return normpath(join(dirname(name), target))
