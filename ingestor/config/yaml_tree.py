"""Parse YAML into a tree of plain values with the line of each key. Pure.

A key without a value counts as missing. A key that is given twice is an error. Dates, ``yes``/``no`` and
numbers with a base or a colon stay text, as in YAML 1.2. ``${VAR}`` and ``${VAR:-default}`` are replaced
after parsing, inside values, so that no variable can change the structure. The result is text, which the
models convert to numbers.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import yaml

from ingestor.config.models import Problem

Where = tuple[str | int, ...]
_Entry = tuple[yaml.ScalarNode, yaml.Node]

_MOST = 100_000  # values of a config, aliases resolved
_VARIABLE = re.compile(
    r"\$(?P<escaped>\$)?\{(?P<name>[A-Za-z_]\w*)?(?P<default>:-[^}]*)?(?P<end>\})?", re.ASCII
)
_STANDARD = "tag:yaml.org,2002:"
_TAGS = {"null", "bool", "int", "float", *(_STANDARD + kind for kind in ("str", "seq", "map"))}
_HINTS = (  # message of PyYAML -> advice
    (r"\\t' that cannot start", "indent with spaces, not with tabs"),
    (r"cannot start any token", "put a value that starts with this character in quotes"),
    (r"scanning an (alias|anchor)", "put a value that starts with * or & in quotes"),
    (r"mapping values are not allowed", "put a value that holds ': ' in quotes, and check the indentation"),
    (r"expected a single document", "a config is one document: remove the line '---' in its middle"),
    (r"undefined alias", "put a value that starts with * in quotes, or define the anchor above"),
    (r"but got '\{'", "inside { } and [ ], put a value with ${...} in quotes"),
    (r"expected <block end>|expected ',' or|did not find expected", "check the indentation and the brackets"),
)


@dataclass(slots=True)
class ConfigTree:
    """A parsed config. ``Where`` is the path of keys and indices to a value."""

    data: Any = None
    lines: dict[Where, int] = field(default_factory=dict)
    raw: dict[Where, str] = field(default_factory=dict)  # values with variables, as the file has them
    problems: list[Problem] = field(default_factory=list)
    broken: set[Where] = field(default_factory=set)  # values that could not be read

    def line(self, where: Where) -> int:
        """Return the line of the value at a path.

        If the file has no such value, return the line of the nearest value around that path.
        """
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where, 0)

    def problem(self, where: Where, message: str) -> Problem:
        return Problem(self.line(where), key_of(where), message)

    def is_filled(self, where: Where) -> bool:
        """Return whether the file writes the value at ``where`` with an environment variable."""
        return any(not match["escaped"] for match in _VARIABLE.finditer(self.raw.get(where, "")))


def key_of(where: Where) -> str:
    """Format a path of keys and indices as text: ``("sources", 0, "path")`` becomes ``sources[0].path``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where).lstrip(".")


def parse(text: str, env: Mapping[str, str]) -> ConfigTree:
    """Parse a YAML text. ``env``: values of environment variables.

    After a syntax error, the returned tree has no data, and the error as its only problem.
    """
    tree = ConfigTree()
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is not None:
            tree.data = _Reader(tree, env).value(node, (), ())
    except yaml.YAMLError as error:
        tree.problems.append(_syntax_problem(error, text))
    except RecursionError:
        tree.problems.append(Problem(0, "", "is nested too deeply: remove levels of nesting"))
    except _TooManyValues:
        tree.problems.append(Problem(0, "", f"has over {_MOST:,} values: use fewer aliases"))
    return tree


class _TooManyValues(Exception):
    """Error: the config has more than _MOST values, probably because its aliases contain aliases."""


class _Loader(yaml.SafeLoader):
    """YAML loader that recognises null, true, false and decimal numbers; every other plain value is text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own shape)


_Loader.add_implicit_resolver("null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver("int", re.compile(r"^[-+]?\d{1,18}$", re.ASCII), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "float",
    re.compile(r"^[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?$", re.ASCII),
    list("-+.0123456789"),
)
_Loader.add_implicit_resolver("merge", re.compile(r"^<<$"), ["<"])


@dataclass(frozen=True, slots=True)
class _Reader:
    """Converts YAML nodes to plain values, and records their lines and problems in ``tree``.

    ``above`` in its methods has the nodes around a node, so that an alias that contains itself is found.
    """

    tree: ConfigTree
    env: Mapping[str, str]
    numbers: Iterator[int] = field(default_factory=count)

    def count_value(self) -> None:
        if next(self.numbers) >= _MOST:
            raise _TooManyValues

    def value(self, node: yaml.Node, where: Where, above: tuple[yaml.Node, ...]) -> Any:
        self.count_value()
        self.tree.lines.setdefault(where, _line(node))
        if any(node is outer for outer in above):
            return self.fault(where, "an alias must not contain itself")
        if node.tag not in _TAGS:
            return self.fault(where, "tags are not allowed: put a value that starts with ! in quotes")
        if isinstance(node, yaml.MappingNode):
            return self.map_of(node, where, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [self.value(item, (*where, index), (*above, node)) for index, item in items]
        return self.scalar(node, where)

    def fault(self, where: Where, message: str) -> None:
        self.tree.problems.append(self.tree.problem(where, message))
        self.tree.broken.add(where)

    def bad_key(self, node: yaml.Node, where: Where, message: str) -> None:
        self.tree.problems.append(Problem(_line(node), key_of(where), message))

    def map_of(self, node: yaml.MappingNode, where: Where, above: tuple[yaml.Node, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in self.entries(node, where, above):
            self.tree.lines[*where, key.value] = _line(key)
            if not (value.tag == "null" and value.value == ""):  # else its content may be commented out
                result[key.value] = self.value(value, (*where, key.value), above)
        return result

    def entries(self, node: yaml.MappingNode, where: Where, above: tuple[yaml.Node, ...]) -> Iterator[_Entry]:
        """Yield the mapping's own entries first, and then the entries that ``<<`` merges into the mapping."""
        seen: dict[str, int] = {}
        bases: list[yaml.Node] = []
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.bad_key(key, where, "a key must be plain text")
            elif key.tag == "merge":
                bases += value.value if isinstance(value, yaml.SequenceNode) else [value]
            elif key.value in seen:
                first = seen[key.value]
                self.bad_key(key, where, f"key {key.value!r} is given twice, first on line {first}")
            else:
                seen[key.value] = _line(key)
                yield key, value
        for base in bases:
            for key, value in self.merge(base, where, above):
                if key.value not in seen:
                    seen[key.value] = _line(key)
                    yield key, value

    def merge(self, base: yaml.Node, where: Where, above: tuple[yaml.Node, ...]) -> Iterator[_Entry]:
        self.count_value()
        if isinstance(base, yaml.MappingNode) and not any(base is outer for outer in above):
            yield from self.entries(base, where, (*above, base))
        else:
            self.bad_key(base, where, "<< must be followed by an alias of another mapping")

    def scalar(self, node: yaml.Node, where: Where) -> Any:
        text = str(node.value)
        if node.tag == "null":
            return None
        if node.tag == "bool":
            return text.lower() == "true"
        if node.tag == "int":
            return int(text)
        if node.tag == "float":
            return float(text) if math.isfinite(float(text)) else text
        return self.fill_in(text, where)

    def fill_in(self, text: str, where: Where) -> str:
        """Replace each variable in a text by its value, and return the text."""
        result = _VARIABLE.sub(lambda match: self.variable(match, where), text)
        if result != text:
            self.tree.raw[where] = text
        return result

    def variable(self, match: re.Match[str], where: Where) -> str:
        if match["escaped"]:
            return match[0][1:]
        name, default = match["name"], match["default"]
        if not (name and match["end"]):
            self.fault(where, "'${' must open ${NAME} or ${NAME:-default}; write '$${' for a plain '${'")
            return ""
        value = self.env.get(name)
        if default is not None:
            return value or str(default)[2:]
        if value is None:
            self.fault(
                where, f"environment variable {name} is not set; set it, or write ${{{name}:-some default}}"
            )
        return value or ""


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


_NO_COLON = "could not find expected ':'"  # PyYAML reports the line after the mistake


def _syntax_problem(error: yaml.YAMLError, text: str) -> Problem:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, int(error.position)) + 1
        return Problem(
            line, "", f"not valid YAML: the character U+{ord(text[error.position]):04X} is not allowed"
        )
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return Problem(0, "", "not valid YAML")
    reason = " ".join(part for part in (error.context, error.problem) if part)
    reason = re.sub(r"(alias|handle) '.*'", r"\1", reason)  # it may be the start of a password
    hint = next((f" ({hint})" for pattern, hint in _HINTS if re.search(pattern, reason)), "")
    mark = error.problem_mark
    if error.problem == _NO_COLON and error.context_mark is not None:
        mark, reason, hint = error.context_mark, "this line has no ':' behind its key", ""
    return Problem(int(mark.line) + 1, "", f"not valid YAML: {reason}{hint}")
