"""Change of the chunking in the text of a config, which keeps comments, order and quotes. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from textwrap import indent

import yaml

TOP = ""  # stands for the top level among names of sources


class NotRewritable(Exception):
    """Error: the config cannot be changed line by line. The message gives the reason."""


def places(text: str, sources: Iterable[str]) -> list[str]:
    """Return where another chunking of these sources belongs: names of sources, or TOP, the top level.

    TOP serves the sources without a chunking of their own, unless other sources depend on the top level.
    Raises NotRewritable.
    """
    nodes = _sources(_root(text))
    wanted = list(sources)
    unknown = [name for name in wanted if name not in nodes]
    if unknown:
        raise NotRewritable(f"source {unknown[0]!r} is not written in the file by that name")
    inheriting = {name for name, node in nodes.items() if _value(node, "chunking") is None}
    own = [name for name in wanted if name not in inheriting]
    rest = [name for name in wanted if name in inheriting]
    return own + ([TOP] if rest and inheriting <= set(rest) else rest)


def with_chunking(text: str, chunking: Mapping[str, str], comment: str) -> str:
    """Return the config with another chunking.

    ``chunking``: YAML with the single key ``chunking``, by place (see ``places``). ``comment``: line above
    each block. Raises NotRewritable.
    """
    root = _root(text)
    nodes = {TOP: root, **_sources(root)}
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    edits = [(*_range(nodes[place], place, lines), block) for place, block in chunking.items()]
    for first, end, column, block in sorted(edits, reverse=True):
        written = indent(f"# {comment}\n{block.rstrip()}\n", " " * column)
        lines[first:end] = [written]
    return "".join(lines)


def _range(mapping: yaml.MappingNode, place: str, lines: list[str]) -> tuple[int, int, int]:
    """Return the first line to replace, the line behind the last one, and the column of the mapping's keys.

    ``mapping``: the top level or a source. Both lines are the same if nothing is to be replaced.
    """
    if mapping.flow_style or not mapping.value:
        raise NotRewritable("the keys beside `chunking` are written in braces {...}")
    column = mapping.start_mark.column
    for key, value in mapping.value:
        if key.value == "chunking":
            if any(
                key.start_mark.line == other.start_mark.line for other, _ in mapping.value if other is not key
            ):
                raise NotRewritable(f"line {key.start_mark.line + 1} holds several keys")
            return key.start_mark.line, _end(key, value), column
    before = next((key.start_mark.line for key, _ in mapping.value if key.value == "sources"), None)
    if place == TOP and before is not None:
        while before and lines[before - 1].lstrip().startswith("#"):  # comments that are about the sources
            before -= 1
        return before, before, column
    end = _end(*mapping.value[-1])
    return end, end, column


def _end(key: yaml.Node, value: yaml.Node) -> int:
    """Return the line behind the last line of a value. The end mark of a block would include comments."""
    return max(node.end_mark.line - (not node.end_mark.column) for node in (key, *_leaves(value))) + 1


def _leaves(node: yaml.Node) -> Iterator[yaml.Node]:
    """Yield the scalars, and the collections in brackets, at and below a node."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style:
        yield node
        return
    for each in node.value:
        for part in each if isinstance(each, tuple) else (each,):
            yield from _leaves(part)


def _root(text: str) -> yaml.MappingNode:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise NotRewritable("the file holds no keys")
    return root


def _sources(root: yaml.MappingNode) -> dict[str, yaml.MappingNode]:
    listed = _value(root, "sources")
    nodes = listed.value if isinstance(listed, yaml.SequenceNode) else []
    mappings = [node for node in nodes if isinstance(node, yaml.MappingNode)]
    return {
        name.value: node for node in mappings if isinstance(name := _value(node, "name"), yaml.ScalarNode)
    }


def _value(mapping: yaml.MappingNode, wanted: str) -> yaml.Node | None:
    return next((value for key, value in mapping.value if key.value == wanted), None)
