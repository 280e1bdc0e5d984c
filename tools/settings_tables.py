"""``python -m tools.settings_tables``: docs/settings.md's tables, from the settings' own fields."""

from __future__ import annotations

from collections.abc import Iterator

from app.secret_url import SecretUrl
from app.settings import PREFIX, Heading, Settings


def settings_tables() -> str:
    """The settings as Markdown: a table for each subject, in the order of their fields."""
    return "\n".join(_lines())[1:] + "\n"


def _lines() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        for mark in field.metadata:
            if isinstance(mark, Heading):
                yield from ("", f"## {mark.text}", "", "| variable | default | meaning |")
                yield "|---|---|---|"
        variable = PREFIX + name.upper()
        meaning = " ".join((field.description or "").split())
        yield f"| `{variable}` | {_default(name)} | {meaning} |"


def _default(name: str) -> str:
    if name == "data_dir":
        return "`~/.local/share/rabbitmq-itc`"
    value = Settings.model_fields[name].default
    if value is None or value == ():
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{value.reveal() if isinstance(value, SecretUrl) else value}`"


if __name__ == "__main__":
    print(settings_tables(), end="")
