"""Divides code into nested units by tree-sitter's syntax trees; without a grammar, at blank lines.

A unit is a function, a class or a statement, with the comments and attributes before it. Another version of a
grammar may find other units, so ``versions`` is part of recipes.

``groups`` leaves functions whole. ``statements`` divides large functions into their statements as well, and
reports the signatures of the functions and classes that it divided.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from ingestor.text.spans import Span

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Language, as parsers name it -> the grammar's module and function.
GRAMMARS = {
    "bash": ("tree_sitter_bash", "language"),
    "c": ("tree_sitter_c", "language"),
    "c++": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "python": ("tree_sitter_python", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "typescript": ("tree_sitter_typescript", "language_tsx"),
}
_ALIASES = {"shellscript": "bash", "sh": "bash", "cpp": "c++", "c#": "csharp", "cs": "csharp"}
_ALIASES |= {"js": "javascript", "ts": "typescript", "py": "python", "rb": "ruby", "rs": "rust"}

_LEADING = re.compile("comment|attribute_item|decorator|annotation|access_specifier|template_parameter")
_CALLABLE = re.compile("function|method|constructor|destructor|lambda|closure|accessor")
_NAMED = re.compile(
    _CALLABLE.pattern + "|class|struct|enum|interface|trait|impl|namespace|module|mod_item|record|declarator"
)
_INNER = ("definition", "declaration")  # fields of wrappers with the wrapped node
_ONE_TEXT = re.compile("string|comment|heredoc|regex|template_literal")
_DEEPEST = 50  # levels; deeper units stay whole, to be split like any text
_TOP = re.compile(r"\n[^\S\n]*\n(?=[^\s#}\])])")  # a blank line, then a line without indentation

Fits = Callable[[Span], bool]
_Part = tuple[int, Any]  # start of a node, with keywords before it, and the node


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of code. ``symbol``: dotted name of the function or class that it belongs to, if any.

    A unit that joins the first line of a definition with the first statement inside has the names of both.
    """

    start: int
    end: int
    symbol: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A function or class that is divided. ``start``: where its own text begins, after comments."""

    start: int
    end: int
    signature: str  # in one line


class NoGrammar(LookupError):
    """Error: no grammar is installed for the language of the code."""


def groups(text: str, language: str, fits: Fits) -> list[list[Unit]]:
    """Return the units of a text in groups. Only units of one group may share a chunk; units leave no gaps.

    ``fits``: returns whether a span is small enough for one unit. A larger unit is divided, and its parts are
    a group. A large function, or a large unit without parts, is alone in its group. Raises NoGrammar.
    """
    return _walk(text, language, fits, None)


def statements(text: str, language: str, fits: Fits) -> tuple[list[list[Unit]], list[Opened]]:
    """Return groups as ``groups`` does, but with large functions divided; and the divided units.

    The statements of a function are one group. The line that opens a block stays with the first statement
    inside if both fit. The divided units are listed outermost first. Raises NoGrammar.
    """
    opened: list[Opened] = []
    return _walk(text, language, fits, opened), opened


def _walk(text: str, language: str, fits: Fits, opened: list[Opened] | None) -> list[list[Unit]]:
    data = text.encode("utf-8", "surrogatepass")
    tree = import_module("tree_sitter").Parser(grammar(_ALIASES.get(language, language))).parse(data)
    walk = _Walk(_code_points(data), text, fits, opened)
    parts, whole = walk.places(tree.root_node.named_children), (0, len(text))
    return list(walk.groups(parts, whole, None, 0)) if parts else [[Unit(*whole)]]


def groups_by_layout(text: str) -> list[list[Unit]]:
    """Return a single group of units, each of which begins with an unindented line after a blank line."""
    cuts = [0, *(match.end() for match in _TOP.finditer(text)), len(text)]
    return [[Unit(start, end) for start, end in pairwise(cuts)]]


@dataclass(frozen=True, slots=True)
class _Item:
    """A node of the syntax tree, together with the comments and attributes before it."""

    start: int
    end: int
    node: Any


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk over a syntax tree.

    ``opened``: collects the functions and classes that are divided; None if functions stay whole.
    """

    code_points: "npt.NDArray[np.int64] | None"  # by byte offset; None if both are equal
    text: str
    fits: Fits
    opened: list[Opened] | None

    def places(self, nodes: Iterable[Any]) -> list[_Part]:
        return [(self._span(node)[0], node) for node in nodes]

    def groups(
        self, nodes: Sequence[_Part], span: Span, outer: str | None, depth: int
    ) -> Iterator[list[Unit]]:
        run: list[Unit] = []
        for number, item in enumerate(self._items(nodes, span)):
            unit = Unit(item.start, item.end, _join_names(outer, _symbol(item.node)))
            inside = depth > 0 or nodes[0][1].type == "php_tag"
            heads = self.opened is not None and inside and number == 1 and bool(run)
            if heads and self.fits((run[0].start, item.end)):
                names = ", ".join(dict.fromkeys(filter(None, (run[0].symbol, unit.symbol))))
                run = [Unit(run[0].start, item.end, names or None)]
                continue
            if self.fits((item.start, item.end)):
                run.append(unit)
                continue
            if self.opened is not None and (line := self._own_line(item)):
                run += [Unit(item.start, line, unit.symbol), Unit(line, item.end, unit.symbol)]
                continue
            parts = self._parts(item.node) if depth < _DEEPEST else []
            begin = (
                run.pop().start if heads and parts else item.start
            )  # a head stays with the first unit inside
            if run:
                yield run
                run = []
            if not parts:
                yield [unit]
                continue
            self._note(item.node)
            inner = self.groups(parts, (begin, item.end), unit.symbol, depth + 1)
            if self.opened is not None and _CALLABLE.search(_definition(item.node).type):
                yield [*chain.from_iterable(inner)]
            else:
                yield from inner
        if run:
            yield run

    def _own_line(self, item: "_Item") -> int | None:
        """Return where a node begins if it is small enough without the comments before it; else None."""
        start, _ = self._span(item.node)
        line = self.text.rfind("\n", 0, start) + 1
        apart = line > item.start and not self.text[line:start].strip()
        return line if apart and self.fits((line, item.end)) else None

    def _note(self, node: Any) -> None:
        """Record the signature of a function or class that is divided."""
        own = _definition(node)
        holder = own if own.child_by_field_name("body") else own.child_by_field_name("value")
        body = holder.child_by_field_name("body") if holder is not None else None
        if self.opened is None or body is None or not _NAMED.search(own.type):
            return
        start, end = self._span(own)
        signature = " ".join(self.text[start : self._span(body)[0]].split()).rstrip(" :{")
        self.opened.append(Opened(start, end, signature))

    def _items(self, nodes: Sequence[_Part], span: Span) -> Iterator[_Item]:
        """Yield items that cover the span without gaps. A comment or the like joins the node after it."""
        if self.opened is not None:
            nodes = [*self._without_remarks(nodes)]
        begin = span[0]
        for (start, node), after in zip(nodes, [*nodes[1:], None], strict=True):
            end = span[1] if after is None else after[0]
            if after is not None and self._leads(node, start, end):
                continue
            yield _Item(begin, end, node)
            begin = end

    def _without_remarks(self, nodes: Sequence[_Part]) -> Iterator[_Part]:
        """Yield the nodes except comments at the end of another node's line, which belong to that node."""
        ends = [-1, *(self._span(node)[1] for _, node in nodes)]
        for (start, node), end in zip(nodes, ends, strict=False):
            if end < 0 or "\n" in self.text[end:start] or "comment" not in node.type:
                yield start, node

    def _leads(self, node: Any, start: int, end: int) -> bool:
        """Return whether a node, such as a comment, belongs to the next node, which begins at ``end``."""
        return bool(_LEADING.search(node.type)) or "\n" not in self.text[start:end]

    def _parts(self, node: Any) -> list[_Part]:
        """Return the parts of a node that is too large: members of a class, entries of a table.

        Return [] if it has no parts, or is only too large because of the comments before it.
        """
        if self.fits(self._span(node)):  # only the comments before it are too long
            return []
        own, parts = _definition(node), self.places([node])
        for _ in range(_DEEPEST):
            large = [at for at, (_, part) in enumerate(parts) if not self.fits(self._span(part))]
            if len(large) != 1 or self._is_leaf(parts[large[0]][1]):
                break
            start, part = parts[large[0]]
            inner = self.places(part.named_children)
            if self.opened is not None:
                if len(parts) > 1 and _NAMED.search(part.type) and _name(part) and part.id != own.id:
                    break
                if any(map(str.isalpha, self.text[start : inner[0][0]])):
                    inner[0] = start, inner[0][1]  # with the keyword before it
            parts[large[0] : large[0] + 1] = inner
        return parts if len(parts) > 1 else []

    def _is_leaf(self, node: Any) -> bool:
        whole = _CALLABLE if self.opened is None else _ONE_TEXT
        return bool(whole.search(node.type)) or not node.named_child_count

    def _span(self, node: Any) -> Span:
        if self.code_points is None:
            return node.start_byte, node.end_byte
        return int(self.code_points[node.start_byte]), int(self.code_points[node.end_byte])


def _symbol(node: Any) -> str | None:
    own = _definition(node)
    return _name(own) if _NAMED.search(own.type) else None


def _definition(node: Any) -> Any:
    """Return the definition inside a decorator, export or template; any other node unchanged."""
    for _ in range(_DEEPEST):
        inner = next(filter(None, map(node.child_by_field_name, _INNER)), None)
        if inner is None and node.type in ("template_declaration", "lexical_declaration"):
            inner = node.named_children[-1]
        if inner is None:
            break
        node = inner
    return node


def _name(node: Any) -> str | None:
    name = node.child_by_field_name("name") or node.child_by_field_name("type")
    while (declarator := node.child_by_field_name("declarator")) is not None:  # C: int *name(...)
        name = node = declarator
    return name.text.decode("utf-8", "replace") if name is not None else None


def _join_names(outer: str | None, name: str | None) -> str | None:
    return f"{outer}.{name}" if outer and name else name or outer


@cache
def grammar(language: str) -> Any:
    if language not in GRAMMARS:
        raise NoGrammar(f"no grammar for {language}")
    module, function = GRAMMARS[language]
    return import_module("tree_sitter").Language(getattr(import_module(module), function)())


def versions() -> str:
    """Return the installed versions of tree-sitter and of every grammar, as part of a recipe."""
    names = sorted({"tree_sitter", *(module for module, _ in GRAMMARS.values())})
    return ", ".join(f"{name} {metadata.version(name)}" for name in names)


def _code_points(data: bytes) -> "npt.NDArray[np.int64] | None":
    if data.isascii():
        return None
    import numpy as np

    begins = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    return np.concatenate([[0], np.cumsum(begins)])
