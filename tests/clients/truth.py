"""What the programs of a pipeline know: which message each handled, and what it then published.

A program appends lines of JSON to a diary of its own (`Diary`, also from several processes and
threads at once); the test reads them all (`Truth`). A message's name is the program's own, and the
test finds it again in the stored events: in the property ``message_id``, or where the library has
its ids.

    {"published": "7>orders>mail", "because": ["7>orders"]}
    {"handled": "7>orders"}
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple


class Diary:
    """One program's lines, in a file that bears its name.

    What handling a message published is written before `handled`: when each message that anybody
    published has been handled, nothing is under way any more.
    """

    def __init__(self, folder: Path, program: str) -> None:
        self._path = folder / f"{program}.jsonl"

    def published(self, message: str, because: Iterable[str] = ()) -> None:
        """A message was published, because these had been handled; on its own account if none."""
        self._write({"published": message, "because": list(because)})

    def joined(self, message: str, because: Iterable[str]) -> None:
        """Further causes of a message, known later: whoever published it had waited for these."""
        self._write({"joined": message, "because": list(because)})

    def handled(self, message: str) -> None:
        """A message was handled to its end."""
        self._write({"handled": message})

    def _write(self, line: Mapping[str, object]) -> None:
        with self._path.open("a") as file:  # one write, appended: processes and threads share it
            file.write(json.dumps(line) + "\n")


class Truth(NamedTuple):
    """All diaries of a pipeline together."""

    publisher: dict[str, str]  # message -> program
    handlers: dict[str, Counter[str]]  # message -> program -> how often it handled it
    causes: dict[str, frozenset[str]]  # message -> the messages because of which it was published
    joined: set[tuple[str, str]]  # those (cause, effect) that came together outside the broker

    @classmethod
    def read(cls, folder: Path) -> Truth:
        """Read every diary in a folder."""
        truth = cls({}, {}, {}, set())
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                truth.note(path.stem, json.loads(line))
        return truth

    def note(self, program: str, line: Mapping[str, object]) -> None:
        """Take in one line of a program's diary."""
        match line:
            case {"published": str(message), "because": list(because)}:
                if message in self.publisher:
                    raise ValueError(f"{message} was published twice")
                self.publisher[message] = program
                self._add(message, because)
            case {"joined": str(message), "because": list(because)}:
                self._add(message, because)
                self.joined.update((cause, message) for cause in because)
            case {"handled": str(message)}:
                self.handlers.setdefault(message, Counter())[program] += 1
            case _:
                raise ValueError(f"not a line of a diary: {line}")

    def _add(self, message: str, because: Iterable[str]) -> None:
        self.causes[message] = self.causes.get(message, frozenset()) | frozenset(because)

    @property
    def under_way(self) -> set[str]:
        """Messages that were published and that nobody has handled yet."""
        return self.publisher.keys() - self.handlers.keys()

    @property
    def direct(self) -> set[tuple[str, str]]:
        """Each (cause, effect): the effect was published because the cause had been handled."""
        return {(cause, effect) for effect, causes in self.causes.items() for cause in causes}

    @property
    def indirect(self) -> set[tuple[str, str]]:
        """Each (cause, effect) with other messages between them, and only those."""
        return _closed(self.direct) - self.direct

    @property
    def carried(self) -> set[tuple[str, str]]:
        """Each (cause, effect), direct or not, that messages alone led from one to the other."""
        return _closed(self.direct - self.joined)


def _closed(direct: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Each pair that these lead from one to the other of."""
    causes: defaultdict[str, set[str]] = defaultdict(set)
    for cause, effect in direct:
        causes[effect].add(cause)
    pasts: dict[str, set[str]] = {}

    def past(message: str) -> set[str]:
        if message not in pasts:
            here = causes.get(message, set())
            pasts[message] = here.union(*map(past, here))
        return pasts[message]

    return {(cause, effect) for effect in list(causes) for cause in past(effect)}
