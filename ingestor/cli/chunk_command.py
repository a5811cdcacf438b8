"""Command ``chunk``: shows into which chunks strategies cut a file, without indexing anything.

On a terminal, neighbouring chunks have different colours. In a file or pipe, lines separate the chunks.
"""

import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from os import environ
from pathlib import Path
from statistics import mean
from typing import Any

from rich.table import Table
from rich.text import Text

from ingestor.cli.output.console import err, out
from ingestor.cli.usage import CONFIG
from ingestor.config.file import load
from ingestor.config.models import Choice, ConfigError, Problem
from ingestor.config.options import Check
from ingestor.config.yaml_tree import ConfigTree, parse
from ingestor.confinement.walls import hide
from ingestor.core.escape import line
from ingestor.model import Document
from ingestor.preview.page import page
from ingestor.preview.preview import CountedEmbedding, Cut, answers, cut, read, setting
from ingestor.preview.view import Beside, Part, beside, flow_lines, parts, show_controls
from ingestor.queries.access import BadRequest
from ingestor.registry import Group, Options
from ingestor.units import quantity


def show(
    file: Path, strategy: str | None, option: Sequence[str], compare: Sequence[str], html: Path | None,
    config: Path | None, *, as_json: bool,
) -> None:  # fmt: skip
    """Run ``ingestor chunk``: cut the file, and print or write the chunks.

    ``option``: options of the strategy as KEY=VALUE. ``compare``: further strategies as NAME:KEY=VALUE.
    Raises ConfigError, BadRequest, and BadDocument if the file cannot be parsed.
    """
    if not file.is_file():
        what = "a folder" if file.is_dir() else "not a regular file" if file.exists() else "missing"
        raise BadRequest(f"{str(file)!r} is {what}: name a file, such as docs/faq.md")
    if html is not None and html.exists() and html.samefile(file):
        raise BadRequest("--html would overwrite the document itself: name another file")
    hide()
    given = config or (CONFIG if CONFIG.exists() else None)
    loaded = None if given is None else load(given, environ)
    where = setting(file, loaded)
    main = where.chunking
    if strategy is not None:  # its other options have their defaults
        main = choice(strategy, option, f"--strategy {strategy}")
    elif option:
        main = choice(main.plugin.kind, option, "--option", as_written(main.options))
    document, cuts = read(file, where.parsing, loaded, where.types), list[Cut]()
    compared = [main]
    for word in filter(None, ",".join(compare).split(",")):
        name, *options = word.split(":")
        compared.append(choice(name, options, f"--compare {name}"))
    with answers(loaded) as asked:
        reading = CountedEmbedding(where.embedding, asked)
        for each in compared:
            with err.status(f"cutting by {each.plugin.kind}"):
                cuts.append(cut(file, document, each, reading, html is not None))
    if html is not None:
        html.write_text(page(file.name, document, cuts, *assets()), "utf-8")
    if as_json:
        results = [_json(each) for each in cuts]
        print(json.dumps(results if len(results) > 1 else results[0]))
        return
    _show_cuts(document, cuts, html)


def as_written(options: Options) -> dict[str, Any]:
    """Return the options that are set, in the form of a config.

    Options that change only the speed are included.
    """
    values: dict[str, Any] = {name: getattr(options, name) for name in options.model_fields_set}
    picks = {
        name: {"strategy": value.strategy, **as_written(value.options)}
        for name, value in values.items()
        if hasattr(value, "strategy")
    }
    return values | picks


def choice(
    kind: str, given: Iterable[str], label: str, kept: dict[str, Any] | None = None, group: Group = "chunkers"
) -> Choice:
    """Return a plugin with options from the command line.

    ``given``: the options as KEY=VALUE. ``label``: the argument that gives the options, for messages.
    ``kept``: more options, which those of ``given`` replace. Raises ConfigError, which names a wrong option
    and its possible values.
    """
    tree = ConfigTree(data=dict(kept or {}))
    for each in given:
        add(tree, each, label)
    check = Check(tree, Path.cwd(), list(tree.problems))
    plugin = check.plugin(group, kind, ())
    chosen = check.options(plugin, tree.data, ()) if plugin else None
    if chosen is None or check.problems:
        raise ConfigError(label, check.problems)
    return chosen


def add(tree: ConfigTree, given: str, label: str) -> None:
    """Parse KEY=VALUE, and set the value in the tree; ``a.b=1`` becomes ``{"a": {"b": 1}}``.

    Raises BadRequest.
    """
    key, equals, value = given.partition("=")
    if not (key and equals):
        raise BadRequest(f"{label}: {given!r} is not KEY=VALUE, as in size=100")
    parsed, path = parse(value, environ), tuple(key.split("."))
    inner = tree.data
    for step in path[:-1]:
        if not isinstance(inner.get(step), dict):
            inner[step] = {}
        inner = inner[step]
    inner[path[-1]] = parsed.data
    tree.lines |= {(*path, *where): 0 for where in parsed.lines}
    tree.lines[path] = 0
    tree.raw |= {(*path, *where): raw for where, raw in parsed.raw.items()}
    tree.problems += [Problem(0, key, problem.message) for problem in parsed.problems]


def assets() -> tuple[str, str, str]:
    """Return the template, style sheet and script for the page of ``chunk --html``."""
    names = ("chunks.html", "chunk_list.css", "chunks.css", "chunks.js")
    folder = files("ingestor").joinpath("templates")
    frame, listing, style, script = (folder.joinpath(name).read_text("utf-8") for name in names)
    return frame, listing + style, script


def _json(cut: Cut) -> dict[str, Any]:
    """Return the fields of ``chunk --json`` for one strategy. Their names are stable.

    A chunk of several separate parts also has ``spans``.
    """
    return {
        "strategy": cut.strategy,
        "chunks": [
            {"start": each.start, "end": each.end, "text": each.text, "metadata": dict(meta)}
            | ({"spans": each.spans} if each.spans else {})
            for each, meta in zip(cut.chunks, cut.metadata, strict=True)
        ],
    }


COLOURS = ("cyan", "magenta")  # legible on dark and on light
GUTTER = 24  # columns
ROLES = {"own": "", "gap": "dim ", "before": "dim italic ", "after": "dim italic "}


def _show_cuts(document: Document, cuts: Sequence[Cut], html: Path | None) -> None:
    """Print every chunk of every strategy, unless a page has them, and then a line about each strategy."""
    for one in cuts if html is None else ():
        if len(cuts) > 1:
            out.print(Text(f"=== {one.strategy} ===\n", "bold"))
        _on_terminal(document, one) if out.is_terminal else _plain(one)
    width = max(len(one.strategy) for one in cuts)
    for one in cuts:
        out.print(Text.assemble((f"{one.strategy:{width}}", "bold"), f"  {summary(one)}"))
    if html is not None:
        print(f"wrote {html}")


def summary(cut: Cut) -> str:
    """Describe the chunks of a strategy: their number, their sizes in tokens, and the time for cutting."""
    sizes = cut.tokens
    if not sizes:
        return "no chunks: the document has no text"
    spent = f", {cut.embedding:.2f} s of it embedding" if cut.embedding else ""
    range_ = f"min {min(sizes)}, mean {mean(sizes):.0f}, max {max(sizes)}"
    return f"{quantity(len(sizes), 'chunk')}; tokens: {range_}; {cut.seconds:.2f} s{spent}"


def _plain(cut: Cut) -> None:
    for number, (chunk, meta) in enumerate(zip(cut.chunks, cut.metadata, strict=True), start=1):
        words = beside(chunk, meta)
        place = ", ".join(filter(None, [words.tokens, words.lines, *words.notes, " > ".join(words.headings)]))
        out.print(Text(f"--- {number} of {len(cut.chunks)}: {place}"))
        if context := meta.get("context"):
            out.print(Text(f"in front: {line(' | '.join(str(context).splitlines()))}"))
        out.print(Text(f"{show_controls(chunk.text)}\n"))


def _on_terminal(document: Document, cut: Cut) -> None:
    texts = parts(flow_lines(document), cut.chunks)
    for number, (chunk, meta, text) in enumerate(zip(cut.chunks, cut.metadata, texts, strict=True)):
        if context := meta.get("context"):
            out.print(Text(line(" | ".join(str(context).splitlines())), "dim italic"), soft_wrap=False)
        out.print(_row(number, beside(chunk, meta), text, out.width), soft_wrap=False)
        out.print()


def _row(number: int, words: Beside, text: Sequence[Part], width: int) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=min(GUTTER, width // 3), no_wrap=True, overflow="ellipsis", style="dim")
    row.add_column(overflow="fold")
    margin = [f"{number + 1:<4}{words.tokens}", words.lines, *words.headings, *words.notes]
    coloured = ((show_controls(part.text), f"{ROLES[part.role]}{COLOURS[number % 2]}") for part in text)
    row.add_row(Text("\n".join(margin)), Text.assemble(*coloured))
    return row
