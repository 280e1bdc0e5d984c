"""The reference pages of the API: ``python -m tools.api_pages`` writes ``docs/api/``.

A page a subject, from the OpenAPI document: routes, parameters, and the fields of what they answer.
An object stands on the first page that speaks of it; other pages link there. A first page,
``README.md``, lists all routes.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from app.main import create_app
from app.settings import load_settings

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "api"
NOTE = "<!-- Made from the OpenAPI document by `python -m tools.api_pages`. -->"

Schema: TypeAlias = dict[str, Any]

_REFERRED = re.compile(r"#/components/schemas/(\w+)")


def pages(document: dict[str, Any]) -> dict[str, str]:
    """Each page's text by its file's name."""
    schemas = document["components"]["schemas"]
    routes: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            [subject] = operation["tags"]
            routes.setdefault(subject, []).append((method.upper(), path, operation))
    homes: dict[str, str] = {}
    for subject, of_it in routes.items():
        for _, _, operation in of_it:
            for name in _components(operation, schemas):
                homes.setdefault(name, subject)
    found = {f"{each}.md": _page(each, of_it, homes, schemas) for each, of_it in routes.items()}
    found["README.md"] = _index(routes)
    return {name: "\n".join(lines) + "\n" for name, lines in found.items()}


def _components(within: Any, schemas: dict[str, Schema]) -> list[str]:
    """The schemas that a part of the document refers to, in their order."""
    found: dict[str, None] = {}
    waiting = [within]
    while waiting:
        text = json.dumps(waiting.pop(0))
        names = [each for each in _REFERRED.findall(text) if each not in found]
        found |= dict.fromkeys(names)
        waiting += [schemas[name] for name in names]
    return [*found]


def _index(routes: dict[str, list[tuple[str, str, Schema]]]) -> Iterator[str]:
    yield from ("# API: all routes", "", NOTE)
    for subject, of_it in routes.items():
        yield from ("", f"## [{subject}]({subject}.md)", "", "| route | |", "|---|---|")
        for method, path, operation in of_it:
            first, _, _ = operation["description"].partition("\n\n")
            yield f"| `{method}` `{path}` | {_line(first)} |"


def _page(
    subject: str,
    routes: list[tuple[str, str, Schema]],
    homes: dict[str, str],
    schemas: dict[str, Schema],
) -> Iterator[str]:
    words = _Words(subject, homes)
    yield from (
        f"# API: {subject}",
        "",
        NOTE,
        "",
        "[api.md](../api.md) says what these tables cannot.",
    )
    for method, path, operation in routes:
        yield from ("", f"## `{method} {path}`", "", operation["description"])
        yield from _parameters(operation.get("parameters", []), words)
        yield from _answers(operation["responses"], words)
    for name in sorted(each for each, home in homes.items() if home == subject):
        schema = schemas[name]
        yield from ("", f"## {name}", "", _line(schema.get("description", "")), "")
        yield from ("| field | type | |", "|---|---|---|")
        for field, of_it in schema["properties"].items():
            yield f"| `{field}` | {words.type_of(of_it)} | {_line(of_it.get('description', ''))} |"


def _parameters(parameters: list[Schema], words: _Words) -> Iterator[str]:
    if parameters:
        yield from ("", "| parameter | type | |", "|---|---|---|")
    for each in parameters:
        schema = each["schema"]
        said = each.get("description", "")
        if each.get("required") and each["in"] != "path":
            said = f"Required. {said}"
        elif schema.get("default") is not None:
            said = f"{said} By default `{json.dumps(schema['default'])}`."
        where = "" if each["in"] == "query" else f" ({each['in']})"
        yield f"| `{each['name']}`{where} | {words.type_of(schema)} | {_line(said)} |"


def _answers(answers: dict[str, Schema], words: _Words) -> Iterator[str]:
    yield ""
    for status, answer in answers.items():
        if int(status) < 400:
            schemas = [each.get("schema", {}) for each in answer.get("content", {}).values()]
            kinds = ", ".join(filter(None, map(words.type_of, schemas)))
            yield f"- {status}: {_line(answer['description'])}" + (f" {kinds}" if kinds else "")
    errors = ", ".join(each for each in answers if int(each) >= 400)
    if errors:
        yield f"- [errors](../api.md): {errors}"


class _Words:
    """Types in words, with links from a subject's page."""

    def __init__(self, subject: str, homes: dict[str, str]) -> None:
        self._subject, self._homes = subject, homes

    def type_of(self, schema: Schema) -> str:
        """Describe what a schema allows."""
        if "$ref" in schema:
            return self._link(schema["$ref"].rpartition("/")[2])
        for several, between in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")):
            if several in schema:
                return between.join(dict.fromkeys(map(self.type_of, schema[several])))
        if "enum" in schema:
            return ", ".join(f"`{each}`" for each in schema["enum"])
        if "const" in schema:
            return f"`{schema['const']}`"
        kind = schema.get("type", "")
        if kind == "array":
            return f"list of {self.type_of(schema.get('items', {})) or 'anything'}"
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            of = self.type_of(schema["additionalProperties"])
            return f"object of {of}" if of else "object"
        return "time" if schema.get("format") in ("date", "date-time") else kind

    def _link(self, name: str) -> str:
        home = self._homes[name]
        return f"[{name}]({'' if home == self._subject else f'{home}.md'}#{name.lower()})"


def _line(text: str) -> str:
    """A text within a table."""
    return " ".join(text.split()).replace("|", "\\|")


def described() -> dict[str, Any]:
    """The service's own description of itself."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(data_dir=Path(folder), auth="none")
        return create_app(settings).openapi()


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    found = pages(described())
    for path in FOLDER.glob("*.md"):
        if path.name not in found:
            path.unlink()
    for name, text in found.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
