"""Code as nested units, by tree-sitter's syntax trees, or by blank lines and indentation without them.

A unit is a function, a class, a statement: whatever the grammar has at that level, with the comments and
attributes before it. Another version of a grammar may cut elsewhere, so ``versions`` is part of recipes.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ingestor.text.spans import Span

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
_INNER = ("definition", "declaration")  # fields under which wrappers hold what they wrap
_DEEPEST = 50  # levels; what is nested deeper stays whole, to be split like any text
_TOP = re.compile(r"\n[^\S\n]*\n(?=[^\s#}\])])")  # a blank line, then a line without indentation

Fits = Callable[[Span], bool]


@dataclass(frozen=True, slots=True)
class Unit:
    """``symbol``: the dotted name of the function or class, where it has one."""

    start: int
    end: int
    symbol: str | None = None


class NoGrammar(LookupError):
    """Error: no grammar is installed for a language."""


def groups(text: str, language: str, fits: Fits) -> list[list[Unit]]:
    """Units in order, in groups whose members may be packed together; no text lies between them.

    A unit that does not fit is opened, and its parts are a group of their own. A function, or a unit without
    parts, is alone in its group. Raises NoGrammar.
    """
    data = text.encode("utf-8", "surrogatepass")
    tree = _parse(data, _ALIASES.get(language, language))
    walk = _Walk(_code_points(data), text, fits)
    nodes, whole = tree.root_node.named_children, (0, len(text))
    return list(walk.groups(nodes, whole, None, 0)) if nodes else [[Unit(*whole)]]


def groups_by_layout(text: str) -> list[list[Unit]]:
    """Return a single group: stretches that begin after a blank line with a line that is not indented."""
    cuts = [0, *(match.end() for match in _TOP.finditer(text)), len(text)]
    return [[Unit(start, end) for start, end in pairwise(cuts)]]


@dataclass(frozen=True, slots=True)
class _Item:
    """A node together with the comments and the like before it."""

    start: int
    end: int
    node: Any


@dataclass(frozen=True, slots=True)
class _Walk:
    code_points: npt.NDArray[np.int64] | None  # of each byte offset; None where they are the same
    text: str
    fits: Fits

    def groups(self, nodes: Sequence[Any], span: Span, outer: str | None, depth: int) -> Iterator[list[Unit]]:
        run: list[Unit] = []
        for item in self._items(nodes, span):
            unit = Unit(item.start, item.end, _join_names(outer, _symbol(item.node)))
            if self.fits((item.start, item.end)):
                run.append(unit)
                continue
            if run:
                yield run
                run = []
            parts = self._parts(item.node) if depth < _DEEPEST else []
            if parts:
                yield from self.groups(parts, (item.start, item.end), unit.symbol, depth + 1)
            else:
                yield [unit]
        if run:
            yield run

    def _items(self, nodes: Sequence[Any], span: Span) -> Iterator[_Item]:
        """Yield items that cover the span: each reaches to the start of the next."""
        begin = span[0]
        for node, after in zip(nodes, [*nodes[1:], None], strict=True):
            end = span[1] if after is None else self._span(after)[0]
            if after is not None and self._leads(node, end):
                continue
            yield _Item(begin, end, node)
            begin = end

    def _leads(self, node: Any, end: int) -> bool:
        """Whether a node belongs to the next one, which begins at ``end``."""
        return bool(_LEADING.search(node.type)) or "\n" not in self.text[self._span(node)[0] : end]

    def _parts(self, node: Any) -> list[Any]:
        """Return the parts of a node that does not fit: members of a class, entries of a table."""
        if self.fits(self._span(node)):  # only the comments before it are too long
            return []
        parts = [node]
        for _ in range(_DEEPEST):
            large = [at for at, part in enumerate(parts) if not self.fits(self._span(part))]
            if len(large) != 1 or _is_leaf(parts[large[0]]):
                break
            parts[large[0] : large[0] + 1] = parts[large[0]].named_children
        return parts if len(parts) > 1 else []

    def _span(self, node: Any) -> Span:
        if self.code_points is None:
            return node.start_byte, node.end_byte
        return int(self.code_points[node.start_byte]), int(self.code_points[node.end_byte])


def _is_leaf(node: Any) -> bool:
    return bool(_CALLABLE.search(node.type)) or not node.named_child_count


def _symbol(node: Any) -> str | None:
    """The name of a definition, also inside decorators, exports and templates."""
    for _ in range(_DEEPEST):
        inner = next(filter(None, map(node.child_by_field_name, _INNER)), None)
        if inner is None and node.type in ("template_declaration", "lexical_declaration"):
            inner = node.named_children[-1]
        if inner is None:
            break
        node = inner
    return _name(node) if _NAMED.search(node.type) else None


def _name(node: Any) -> str | None:
    name = node.child_by_field_name("name") or node.child_by_field_name("type")
    while (declarator := node.child_by_field_name("declarator")) is not None:  # C: int *name(...)
        name = node = declarator
    return name.text.decode("utf-8", "replace") if name is not None else None


def _join_names(outer: str | None, name: str | None) -> str | None:
    return f"{outer}.{name}" if outer and name else name or outer


def _parse(data: bytes, language: str) -> Any:
    known = grammar(language)
    return import_module("tree_sitter").Parser(known).parse(data)


@cache
def grammar(language: str) -> Any:
    if language not in GRAMMARS:
        raise NoGrammar(f"no grammar for {language}")
    module, function = GRAMMARS[language]
    return import_module("tree_sitter").Language(getattr(import_module(module), function)())


def versions() -> str:
    """The versions of tree-sitter and of every grammar."""
    names = sorted({"tree_sitter", *(module for module, _ in GRAMMARS.values())})
    return ", ".join(f"{name} {metadata.version(name)}" for name in names)


def _code_points(data: bytes) -> npt.NDArray[np.int64] | None:
    if data.isascii():
        return None
    begins = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    return np.concatenate([[0], np.cumsum(begins)])
