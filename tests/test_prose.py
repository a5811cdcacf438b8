"""Docstrings, messages and commit subjects keep CONTRIBUTING's rules of prose."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from tests.program import ROOT, modules, nodes

FRAGMENT = re.compile(r"(Of|Those|Less|As|That|What|For|Its|One|None|Nothing)\b")
STORY = re.compile(r"(Say|Tell|Let)\b")
ORPHAN = re.compile(r"(it|its|they|those|these|one|what|of|less|that|this (is|was|has|can|may|will))\b", re.I)
ASIDE = re.compile(r"\b(told|said)\b", re.I)
FIELD = re.compile(r"%[-.\w]*[a-zA-Z]|\{[^{}]*\}")
LOG = ("debug", "info", "warning", "error", "exception", "critical")
ERROR = re.compile(
    r"(Error|Refused|Failure|Failed|Problem|Unavailable|Invalid|BadDocument|NeedsHuman|Transient)$"
)
LONGEST = 100  # characters of a log message, without its values
FIRST_COMMIT = "38c7d152"  # subjects after it keep the rules

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def opens_badly(node: Documented) -> bool:
    """Return whether a docstring opens with a fragment or with a parameter."""
    words = ast.get_docstring(node) or ""
    if FRAGMENT.match(words):
        return True
    if isinstance(node, ast.Module | ast.ClassDef):
        return False
    given = node.args
    names = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    quoted = re.match(r"``(\w+)``", words)
    return quoted is not None and quoted[1] in names


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    places = [
        f"{path}:{getattr(node, 'lineno', 1)}"
        for path, tree in modules().items()
        for node in nodes(tree)
        if isinstance(node, Documented) and opens_badly(node)
    ]
    assert places == []


@pytest.mark.parametrize(
    ("source", "bad"),
    [
        ('def f():\n    """Of a document, the key."""', True),
        ('def f(key):\n    """``key``: of the document."""', True),
        ('def f():\n    """``None`` ends the listing."""', False),
        ('class A:\n    """That which waits."""', True),
        ('"""Nothing is lost."""', True),
        ('def f():\n    """Offer a place."""', False),
        ('async def f():\n    """Return the key."""', False),
        ("def f(): ...", False),
    ],
)
def test_opening_of_a_docstring_is_judged(source: str, bad: bool) -> None:
    (node,) = [each for each in ast.walk(ast.parse(source)) if isinstance(each, Documented)][-1:]
    assert opens_badly(node) is bad


DESCRIBED = re.compile(r"(?:^|[.;\n]\s*|and |, )``([A-Za-z_]\w*)``(?=:|(?:,? (?:and )?``\w+``)+:)")


def unknown_names(tree: ast.Module) -> Iterator[str]:
    """Yield names that a docstring describes (a name in quotes, then a colon) and its module's code lacks."""
    documented = [node for node in nodes(tree) if isinstance(node, Documented) and ast.get_docstring(node)]
    docstrings = {id(node.body[0].value) for node in documented if isinstance(node.body[0], ast.Expr)}
    values = [
        node.value for node in nodes(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings
    ]
    code = {word for value in values if isinstance(value, str) for word in re.findall(r"\w+", value)}
    code.update(names_of(nodes(tree)))
    for node in (node for node in documented if not isinstance(node, ast.Module)):
        yield from (name for name in DESCRIBED.findall(ast.get_docstring(node) or "") if name not in code)


def test_docstrings_describe_names_that_exist() -> None:
    assert {str(path): names for path, tree in modules().items() if (names := [*unknown_names(tree)])} == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('def f(key):\n    """Return it. ``but``: rows to leave out."""', ["but"]),
        ('def f(key):\n    """Return it.\n\n    ``key``, ``but`` and ``so``: rows."""', ["but", "so"]),
        ('def f(key):\n    """Return it. ``key``: of a document."""', []),
        ('KINDS = "lost kept"\nclass A:\n    """A kind. ``kept``: readers see it."""', []),
        ('def f():\n    """Call ``get`` of the client."""', []),
    ],
)
def test_names_that_a_module_lacks_are_found(source: str, names: list[str]) -> None:
    assert [*unknown_names(ast.parse(source))] == names


def test_commit_subjects_name_a_component_or_a_deed() -> None:
    log = subprocess.run(
        ["git", "log", "--format=%h %s", f"{FIRST_COMMIT}..HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    if log.returncode:
        pytest.skip("this copy has no history")
    assert [line for line in log.stdout.splitlines() if STORY.match(line.partition(" ")[2])] == []


def wording(node: ast.expr) -> str | None:
    """Return the text of a string, with every value as ``{}``; None if the expression is no string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(wording(part) or "{}" for part in node.values)
    return None


def messages(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind (log, help, error, print) and words of each message to users."""
    for node in nodes(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        said = [
            (each.value, "help") for each in node.keywords if each.arg in ("help", "short_help", "epilog")
        ]
        if name in LOG:
            said += [(each, "log") for each in node.args[:1]]
        elif name in ("print", "echo", "secho", "fail"):
            said += [(each, "print") for each in node.args[:1]]
        elif ERROR.search(name):
            said += [(each, "error") for each in node.args]
        for value, kind in said:
            if (words := wording(value)) is not None and (" " in words or kind == "log"):
                yield node.lineno, kind, words


def fault(kind: str, words: str) -> str | None:
    """Return the rule that a message breaks."""
    plain = FIELD.sub("", words)
    if ORPHAN.match(words.lstrip()):
        return "opens with a fragment or a pronoun without its noun"
    if kind in ("log", "help") and ASIDE.search(words):
        return "tells instead of reporting"
    if kind == "log" and len(plain) > LONGEST:
        return f"has more than {LONGEST} characters"
    if kind == "log" and not re.search(r"[a-z]{2}", plain):
        return "names no object"
    return None


def test_messages_name_their_object_and_are_short() -> None:
    found = [
        f"{path}:{line}: {broken}: {words}"
        for path, tree in modules().items()
        for line, kind, words in messages(tree)
        if (broken := fault(kind, words))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "broken"),
    [
        ('log.info("it is written again")', "opens with a fragment or a pronoun without its noun"),
        ('raise EOFError("it is cut off")', "opens with a fragment or a pronoun without its noun"),
        ('raise BadDocument(f"its {part} is gone")', "opens with a fragment or a pronoun without its noun"),
        ('Option(help="Of a copy, the records")', "opens with a fragment or a pronoun without its noun"),
        ('log.warning("the daemon was told: %s", why)', "tells instead of reporting"),
        ('log.warning("%s: %s", name, why)', "names no object"),
        (f'log.error("{"long " * 21}")', "has more than 100 characters"),
        ('log.info("collection %s: writes resumed", name)', None),
        ('raise BadDocument("is encrypted; save it without a password, or exclude it")', None),
        ('raise NeedsHuman("this user may not read the folder")', None),
    ],
)
def test_fault_of_a_message_is_named(source: str, broken: str | None) -> None:
    assert [fault(kind, words) for _, kind, words in messages(ast.parse(source))] == [broken]


JOINED = re.compile(
    r'[\w.,;:)](?<!\\n)"\n +f?"[A-Za-z(`{]'
)  # literals of one message, without a space between


def test_parts_of_a_message_keep_a_space_between_words() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{source.count(chr(10), 0, match.start()) + 1}"
        for path in sorted((ROOT / "ingestor").rglob("*.py"))
        for source in [path.read_text("utf-8")]
        for match in JOINED.finditer(source)
    ]
    assert places == []


@pytest.mark.parametrize(
    ("source", "joined"),
    [
        ('("got the same"\n    f"correctness")', True),
        ('("of {count},"\n    "and")', True),
        ('("got the same "\n    f"correctness")', False),
        ('("a line\\n"\n    "another")', False),
        ('("a", \n    "b")', False),
    ],
)
def test_parts_of_a_message_without_a_space_are_recognised(source: str, joined: bool) -> None:
    assert (JOINED.search(source) is not None) is joined


NO_SUBJECT = set(
    "who so nor they its those nobody whoever whatever others of where when in what it one".split()  # noqa: SIM905
)


def test_names_of_tests_open_with_their_subject() -> None:
    sources = [path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("*.py"))]
    names = [name for source in sources for name in re.findall(r"^ *def test_(\w+)", source, re.MULTILINE)]
    assert [name for name in names if name.partition("_")[0] in NO_SUBJECT] == []


NOT_NAMES = {"said", "told", "found", "but", "so"}
PARTICIPLE = re.compile(
    r"_*(?!(embed|feed|need|seed|speed|string|bring|sibling|spelling|pooling|padding|setting|heading)(_|$))"
    r"([a-z]+(ed|ing)|given|taken|written|chosen|spoken|broken|frozen|forgotten|seen|made|kept|held|sent"
    r"|known|drawn|left|lost|built|bound|brought|done|gone|met|shown|torn|worn)(_|$)"
)
FIXED = {  # names of other packages, of the plugin API and of the service port's schema
    *("missing_host_key", "SO_REUSEADDR", "_raise_not_found_for_status", "tuning", "pinned", "added", "Found")
}
WORD = re.compile(r"[A-Za-z0-9][\w'’.,/%-]*")
WORDS = 25  # of a sentence


def names_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield every name that a module binds or uses, once for each place."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Attribute):
            yield node.attr


def sentences_of(docstring: str) -> Iterator[str]:
    """Yield the sentences of a docstring, with each quoted piece of code as one word."""
    plain = re.sub(r"``[^`]*``|`[^`]*`", "X", docstring)
    for paragraph in re.split(r"\n\s*\n", plain):
        yield from re.split(r"(?<=[.!?;:])\s+(?=[A-Z0-9`*\[(])", " ".join(paragraph.split()))


def left_in(tree: ast.AST) -> tuple[int, int, int]:
    """Count names, functions and sentences of a module that break the rules."""
    every = nodes(tree)
    functions = [node.name for node in every if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    docstrings = [ast.get_docstring(node) or "" for node in every if isinstance(node, Documented)]
    sentences = [each for docstring in docstrings for each in sentences_of(docstring)]
    return (
        sum(
            not NOT_NAMES.isdisjoint(name.lower().split("_")) for name in names_of(every) if name not in FIXED
        ),
        sum(PARTICIPLE.match(name) is not None for name in functions if name not in FIXED),
        sum(len(WORD.findall(sentence)) > WORDS for sentence in sentences),
    )


def counts_by_folder() -> dict[str, tuple[int, ...]]:
    """Count names, functions and sentences that break the rules, by folder of the program."""
    counts: dict[str, Counter[int]] = {}
    for path, tree in modules().items():
        _, folder, *rest = path.parts
        counter = counts.setdefault(folder if rest else "", Counter())
        counter.update(dict(enumerate(left_in(tree))))
    return {folder: tuple(counter[kind] for kind in range(3)) for folder, counter in counts.items()}


def test_names_and_docstrings_keep_the_rules() -> None:
    bad = {folder: counts for folder, counts in counts_by_folder().items() if any(counts)}
    assert bad == {}, "folder: (names with words of NOT_NAMES, functions with a participle, long sentences)"


PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG")),
]


def sentences_of_page(text: str) -> Iterator[str]:
    """Yield the sentences of paragraphs and lists; tables, headings and code are left out."""
    plain = re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", plain)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", plain):
        if not paragraph.lstrip().startswith(("|", "#")):
            yield from sentences_of(paragraph)


def test_sentences_of_docs_are_short() -> None:
    long = [
        (page.name, sentence)
        for page in PAGES
        for sentence in sentences_of_page(page.read_text("utf-8"))
        if len(WORD.findall(sentence)) > WORDS and not sentence.startswith("X, X, X,")  # a list of keys
    ]
    assert long == []


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ("found = 1", (1, 0, 0)),
        ("def f(so): ...", (1, 0, 0)),
        ("a.said_by()", (1, 0, 0)),
        ("profound = someone = sofar = 1", (0, 0, 0)),
        ("def opened(): ...", (0, 1, 0)),
        ("async def _kept_out(): ...", (0, 1, 0)),
        ("def embed_each(): ...", (0, 0, 0)),
        ("def open_address(): ...", (0, 0, 0)),
        (f'"""{"word " * 26}end."""', (0, 0, 1)),
        (f'"""{"word " * 24}end. Another sentence, with ``some code of many words here``."""', (0, 0, 0)),
    ],
)
def test_names_and_sentences_that_break_the_rules_are_counted(
    source: str, counts: tuple[int, int, int]
) -> None:
    assert left_in(ast.parse(source)) == counts
