"""Rewrite the chunking in the text of a config, and keep its comments, order and quotes. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from textwrap import indent

import yaml

TOP = ""  # stands for the top level among names of sources


class NotRewritable(Exception):
    """Error: the config cannot be changed line by line. The message gives the reason."""


def places(text: str, sources: Iterable[str]) -> list[str]:
    """Return the sections of the config in which a new chunking of these sources must be written.

    A section is a source, by its name, or TOP for the top level. TOP stands for all sources without a
    chunking of their own, if every such source is among ``sources``. Otherwise each source gets a chunking of
    its own. Raises NotRewritable.
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
    """Return the text of the config with new chunkings, and everything else unchanged.

    ``chunking``: the new YAML block by section (see ``places``); each block has the single key ``chunking``.
    ``comment``: text of the comment line above each block. Raises NotRewritable.
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
    """Return the lines of a section that its new ``chunking`` replaces, and the column of the section's keys.

    ``mapping``: the section, which is the top level or a source. The lines are given as first line and the
    line after the last. Both are equal if the section has no ``chunking`` yet: the block is inserted there.
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
    """Return the number of the line after a value's last line.

    PyYAML's end mark is not used for blocks, because it lies behind the comments that follow them.
    """
    return max(node.end_mark.line - (not node.end_mark.column) for node in (key, *_leaves(value))) + 1


def _leaves(node: yaml.Node) -> Iterator[yaml.Node]:
    """Yield the scalars at and below a node. A list or mapping in brackets counts as a scalar."""
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
