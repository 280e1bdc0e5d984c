"""Names are nouns and verbs of the field: the code is counted for those that are not.

Of well-known projects in Python 0 to 2 % of the bindings are function words.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("app", "itc", "model", "spark_jobs", "statements")

MOST_FUNCTION_WORDS = 3  # per cent of all bindings
MOST_PARTICIPLES = 60  # functions


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# No noun and no verb; `first`, `last` and `next` are positions.
FUNCTION_WORDS = words("""
    me my mine myself we us our ours you your yours it its itself he him his himself she her hers
    they them their theirs themselves who whom whose which what whoever whatever whichever
    this that these those one ones own other others another each every either neither both all any
    some none such same someone anyone everyone nobody anybody somebody everybody
    nothing something anything everything
    much many more most few fewer fewest less least several enough
    at by for from in into of off on onto out over to up upon under until till with within without
    before after behind beside besides between beyond during since through toward towards against
    among amongst along across around above below about via as per than near despite except down
    and or but nor if then else so not no yes yet still again once twice only also too just even
    ever never always often now soon later sooner here there thence hence where wherever when
    whenever why how however thus therefore though although because while whether away apart aside
    together already elsewhere instead otherwise meanwhile ahead afterwards beforehand almost quite
    rather very perhaps maybe
    is are was were be been being am has have had having do does did done doing
    can could cannot may might must shall should will would
""")
# As the whole name of a variable they hide what it is that was found, known or asked.
BARE_PARTICIPLES = words("""
    found known asked said told held given taken kept seen gone left made met named meant shown
    wanted needed allowed waited lost brought came come went going coming got gotten let answered
    called looked tried written wrote drawn thrown grown shared changed passed used learnt learned
    heard owed laid led ended begun began started stopped closed opened moved joined merged missed
    missing failed resolved ordered sorted counted weighed checked judged noted decided chosen
    picked dealt sought thought felt bought caught taught built spent bound hidden spoken broken
    risen fallen forgotten proven stood understood paid won hung sat remembered cited claimed
    covered marked touched turned carried followed added removed
    looking saying telling asking giving taking keeping holding knowing finding seeing making
    meaning wanting needing allowing waiting losing bringing calling trying following preceding
""")
# Past participles that do not end in -ed.
IRREGULAR = words("""
    been begun bent bled borne born bought bound bred broken brought built caught chosen come dealt
    done drawn driven fallen fed felt forgotten fought found frozen given gone got grown had heard
    held hidden hung kept known laid lain led left lent let learnt lost made meant met paid proven
    ridden risen said seen sent shown slept sought spent spoken stolen stood swept sworn taken
    taught thought thrown told torn understood woken won worn written
""")
# They end as participles do, and are none.
NO_PARTICIPLES = words("""
    need feed seed speed exceed proceed succeed embed shed hundred indeed breed bleed weed reed deed
    creed string substring thing ring king spring bring ping wing sing swing sting fling cling sling
    during nothing something anything everything sibling ceiling morning evening meaning pending
    skywalking
""")
# What a function may be named all the same: states and operations that AMQP, RabbitMQ, encodings
# and processes have under these names, and last members of answers and commands.
TERMS = words("""
    acknowledged unacknowledged committed published received delivered redelivered routed unrouted
    settled stored dropped rejected expired returned queued consumed bound connected declared
    stamped restamped matched unmatched linked indexed tracing waiting running reading listed
    packed unpacked framed escaped unescaped quoted unquoted decoded encoded parsed compiled
    spooled truncated paused restored caused setting restarting failed stopping stopped
    handed_over settled_by unwatched missed held_since found_by done_by hidden touched
""")


def bare(name: str) -> str:
    return name.strip("_").lower()


def scopes(text: str) -> Iterator[set[str]]:
    """The names that each module, class, function and comprehension binds; without imports."""
    tables = [symtable.symtable(text, "<source>", "exec")]
    for table in tables:
        tables += table.get_children()
        yield {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_local() and not symbol.is_imported()
            if symbol.is_assigned() or symbol.is_parameter() or symbol.is_annotated()
        }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            yield set(attributes(node))


def attributes(owner: ast.ClassDef) -> Iterator[str]:
    """What methods assign to ``self``, unless the class's body has it."""
    lines = [line for line in owner.body if isinstance(line, ast.Assign | ast.AnnAssign)]
    fields = {node.id for line in lines for node in ast.walk(line) if isinstance(node, ast.Name)}
    for node in ast.walk(owner):
        match node:
            case ast.Attribute(ast.Name("self"), name, ast.Store()) if name not in fields:
                yield name


def bindings(text: str) -> Iterator[str]:
    """Names as they are bound, once a scope, in lower case."""
    for scope in scopes(text):
        names = [name for name in scope - {"self", "cls", ".0"} if not name.endswith("__")]
        yield from filter(None, map(bare, names))


def function_words(names: Counter[str]) -> Counter[str]:
    """How often each function word, or a bare participle, is a name."""
    sides = min(names["left"], names["right"])  # of a tree
    counts = {name: names[name] for name in names if name in FUNCTION_WORDS | BARE_PARTICIPLES}
    return Counter(counts) - Counter(left=sides)


def is_participle(name: str) -> bool:
    """Tell whether a function's name is a participle, with no noun after it."""
    if name.endswith("__"):
        return False
    first, *rest = bare(name).split("_")
    has_ending = re.fullmatch(r"\w{2,}(ed|ing)", first) and first not in NO_PARTICIPLES
    return bool(first in IRREGULAR or has_ending) and FUNCTION_WORDS.issuperset(rest)


def participles(text: str) -> Counter[str]:
    """The functions and methods that are named by a participle."""
    return Counter(
        bare(node.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name)
    )


@cache
def sources() -> dict[str, str]:
    files = [file for room in PRODUCT for file in sorted((ROOT / room).rglob("*.py"))]
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


def worst(counts: dict[str, Counter[str]]) -> str:
    """The twenty files with most of them, a line each."""
    order = sorted(filter(lambda item: item[1], counts.items()), key=lambda item: -item[1].total())
    return "\n".join(
        f"{path}: {names.total()}: "
        + ", ".join(f"{name} {count}" for name, count in names.most_common(8))
        for path, names in order[:20]
    )


def test_few_names_are_function_words() -> None:
    names = {path: Counter(bindings(text)) for path, text in sources().items()}
    counts = {path: function_words(bound) for path, bound in names.items()}
    count = sum(hits.total() for hits in counts.values())
    total = sum(bound.total() for bound in names.values())
    share = 100 * count / total
    assert share <= MOST_FUNCTION_WORDS, (
        f"{count:,} of {total:,} bindings ({share:.1f} %) are function words: name what they are\n"
        + worst(counts)
    )


def test_functions_are_named_by_participles_of_the_field_alone() -> None:
    counts = {path: participles(text) for path, text in sources().items()}
    unlisted = {
        path: Counter({name: count for name, count in names.items() if name not in TERMS})
        for path, names in counts.items()
    }
    count = sum(names.total() for names in unlisted.values())
    assert not count, f"{count} functions are named by participles: use a verb\n{worst(unlisted)}"
    total = sum(names.total() for names in counts.values())
    assert total <= MOST_PARTICIPLES, f"{total} functions, at most {MOST_PARTICIPLES}\n" + worst(
        counts
    )


EXAMPLE = """
import json as its
from os import path as what

_FOUND: int = 1
LIMIT = 2

class Row:
    mine: str
    name = "x"

    def __init__(self, at, *others, key=None, **most):
        self.key, self._each = key, at
        self.mine = at
        def held_by():
            nonlocal key
            key = 1

    def sorted_rows(self):
        for each, row in enumerate(self.key):
            each = row
        with open("a") as said:
            pass
        return [who for who in said if (told := who)]

    async def left_out(self, left, right):
        match left:
            case [own, *whose]:
                return lambda via: via
        try:
            self.other[0] = self.nested.after = 1
        except ValueError as before:
            pass

def string(left): ...
def seeding(): global _FOUND; _FOUND = 2
"""


def test_names_are_counted_once_a_scope_however_they_are_bound() -> None:
    names = Counter(bindings(EXAMPLE))
    hits = ["found", "mine", "at", "others", "most", "each", "each", "said", "who", "told"]
    counts = Counter([*hits, "own", "whose", "via", "before", "left"])
    assert function_words(names) == counts
    nouns = ["limit", "row", "name", "key", "key", "held_by", "sorted_rows", "row", "left_out"]
    assert names == counts + Counter([*nouns, "left", "right", "string", "seeding"])


def test_participles_are_names_of_functions_without_a_noun() -> None:
    assert participles(EXAMPLE) == Counter(["held_by", "left_out", "seeding"])


def test_the_worst_files_come_first() -> None:
    counts = {"a.py": Counter(its=1), "b.py": Counter(each=2, at=1), "c.py": Counter[str]()}
    assert worst(counts) == "b.py: 3: each 2, at 1\na.py: 1: its 1"
