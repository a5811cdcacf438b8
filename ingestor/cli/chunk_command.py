"""Command ``ingestor chunk``, which shows how strategies cut a file before anything is indexed.

Chunks alternate in colour on a terminal; elsewhere they are separated plain text.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from os import environ
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ingestor.cli.usage import DEFAULT_CONFIG
from ingestor.config.file import load
from ingestor.config.models import Choice, Config, ConfigError, Problem
from ingestor.config.options import Check
from ingestor.config.yaml_tree import ConfigTree, parse
from ingestor.confinement.walls import hide
from ingestor.core.escape import line
from ingestor.model import Document
from ingestor.preview.page import Assets, page
from ingestor.preview.preview import CountedEmbedding, Cut, Setting, answers, cut, read, setting
from ingestor.preview.view import Beside, Part, beside, flow_lines, parts, show_controls
from ingestor.queries.access import BadRequest
from ingestor.registry import Options
from ingestor.units import counted


def show(
    file: Path,
    strategy: str | None,
    option: Sequence[str],
    compare: Sequence[str],
    html: Path | None,
    config: Path | None,
    *,
    as_json: bool,
) -> None:
    """Run ``ingestor chunk``. ``option``: KEY=VALUE; ``compare``: NAME:KEY=VALUE.

    Raises ConfigError, BadRequest, and BadDocument if the file cannot be parsed.
    """
    _check_files(file, html)
    loaded = _config(config)
    where = setting(file, loaded)
    choices = [_main(where, strategy, option), *_compared(compare)]
    document = read(file, where.parsing, loaded, where.types)
    with answers(loaded) as asked:
        cuts = list(
            _cuts(file, document, choices, CountedEmbedding(where.embedding, asked), look=html is not None)
        )
    if html is not None:
        html.write_text(page(file.name, document, cuts, assets()), "utf-8")
    _answer(document, cuts, html, as_json)


def _cuts(
    file: Path, document: Document, choices: Iterable[Choice], reading: CountedEmbedding, look: bool
) -> Iterator[Cut]:
    for each in choices:
        with show_waiting(f"cutting by {each.plugin.kind}"):
            yield cut(file, document, each, reading, look)


def _check_files(file: Path, html: Path | None) -> None:
    if not file.is_file():
        what = "a folder" if file.is_dir() else "no regular file" if file.exists() else "missing"
        raise BadRequest(f"{str(file)!r} is {what}: name a file, such as docs/faq.md")
    if html is not None and html.exists() and html.samefile(file):
        raise BadRequest("--html would overwrite the file itself; name another")


def _config(path: Path | None) -> Config | None:
    """The named config, which must exist; else config.yaml, if it exists."""
    if path is None and not DEFAULT_CONFIG.exists():
        return None
    hide()
    return load(path or DEFAULT_CONFIG, environ)


def _main(where: Setting, strategy: str | None, given: Sequence[str]) -> Choice:
    """A strategy of the command line starts from its defaults, the configured one from its options."""
    if strategy is None:
        kept = said(where.chunking.options)
        return choice(where.chunking.plugin.kind, given, "--option", kept) if given else where.chunking
    return choice(strategy, given, f"--strategy {strategy}")


def said(options: Options) -> dict[str, Any]:
    """The options as a config has them, tuning options included."""
    values: dict[str, Any] = {name: getattr(options, name) for name in options.model_fields_set}
    picks = {
        name: {"strategy": value.strategy, **said(value.options)}
        for name, value in values.items()
        if hasattr(value, "strategy")
    }
    return values | picks


def _compared(lists: Iterable[str]) -> Iterator[Choice]:
    for each in ",".join(lists).split(","):
        if each:
            name, *options = each.split(":")
            yield choice(name, options, f"--compare {name}")


def choice(strategy: str, given: Iterable[str], label: str, kept: dict[str, Any] | None = None) -> Choice:
    """Raises ConfigError, which names the option and its allowed values."""
    tree = ConfigTree(data=dict(kept or {}))
    for each in given:
        add(tree, each, label)
    found = Check(tree, Path.cwd(), list(tree.problems))
    plugin = found.plugin("chunkers", strategy, ())
    chosen = found.options(plugin, tree.data, ()) if plugin else None
    if chosen is None or found.problems:
        raise ConfigError(label, found.problems)
    return chosen


def add(tree: ConfigTree, given: str, label: str) -> None:
    """Put KEY=VALUE into the tree; ``a.b=1`` as ``{"a": {"b": 1}}``. Raises BadRequest."""
    key, equals, value = given.partition("=")
    if not (key and equals):
        raise BadRequest(f"{label}: {given!r} is not KEY=VALUE, as in size=100")
    found, path = parse(value, environ), tuple(key.split("."))
    inner = tree.data
    for step in path[:-1]:
        if not isinstance(inner.get(step), dict):
            inner[step] = {}
        inner = inner[step]
    inner[path[-1]] = found.data
    tree.lines |= {(*path, *where): 0 for where in found.lines}
    tree.lines[path] = 0
    tree.raw |= {(*path, *where): raw for where, raw in found.raw.items()}
    tree.problems += [Problem(0, key, problem.message) for problem in found.problems]


def assets() -> Assets:
    folder = files("ingestor").joinpath("templates")
    frame, style, script = (
        folder.joinpath(f"chunks.{kind}").read_text("utf-8") for kind in ("html", "css", "js")
    )
    return Assets(frame, folder.joinpath("chunk_list.css").read_text("utf-8") + style, script)


def _answer(document: Document, cuts: Sequence[Cut], html: Path | None, as_json: bool) -> None:
    if as_json:
        found = [_json(each) for each in cuts]
        print(json.dumps(found if len(found) > 1 else found[0]))
        return
    if html is None:
        show_cuts(document, cuts)
    summarize(cuts)
    if html is not None:
        print(f"wrote {html}")


def _json(found: Cut) -> dict[str, Any]:
    """The stable keys of ``chunk --json``. Chunks that are not contiguous also have ``spans``."""
    return {
        "strategy": found.strategy,
        "chunks": [
            {"start": each.start, "end": each.end, "text": each.text, "metadata": dict(meta)}
            | ({"spans": each.spans} if each.spans else {})
            for each, meta in zip(found.chunks, found.metadata, strict=True)
        ],
    }


COLOURS = ("cyan", "magenta")  # legible on dark and on light
GUTTER = 24  # columns
ROLES = {"own": "", "gap": "dim ", "before": "dim italic ", "after": "dim italic "}


def show_cuts(document: Document, cuts: Sequence[Cut]) -> None:
    """Every chunk of every strategy."""
    out = _console()
    for one in cuts:
        if len(cuts) > 1:
            out.print(Text(f"=== {one.strategy} ===\n", "bold"))
        _on_terminal(out, document, one) if out.is_terminal else _plain(out, one)


@contextmanager
def show_waiting(words: str) -> Iterator[None]:
    """A sign of life on a terminal."""
    with Console(stderr=True).status(words):
        yield


def summarize(cuts: Sequence[Cut]) -> None:
    """A line a strategy."""
    out, width = _console(), max(len(one.strategy) for one in cuts)
    for one in cuts:
        out.print(Text.assemble((f"{one.strategy:{width}}", "bold"), f"  {summary(one)}"))


def summary(cut: Cut) -> str:
    sizes = cut.tokens
    if not sizes:
        return "no chunks: the document has no text"
    spent = f", {cut.embedding:.2f} s of it embedding" if cut.embedding else ""
    range_ = f"min {min(sizes)}, mean {mean(sizes):.0f}, max {max(sizes)}"
    return f"{counted(len(sizes), 'chunk')}; tokens: {range_}; {cut.seconds:.2f} s{spent}"


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def _plain(out: Console, cut: Cut) -> None:
    for number, (chunk, meta) in enumerate(zip(cut.chunks, cut.metadata, strict=True), start=1):
        beside_words = beside(chunk, meta)
        place = ", ".join(
            filter(
                None,
                [
                    beside_words.tokens,
                    beside_words.lines,
                    *beside_words.notes,
                    " > ".join(beside_words.headings),
                ],
            )
        )
        out.print(Text(f"--- {number} of {len(cut.chunks)}: {place}"))
        if context := meta.get("context"):
            out.print(Text(f"in front: {line(' | '.join(str(context).splitlines()))}"))
        out.print(Text(f"{show_controls(chunk.text)}\n"))


def _on_terminal(out: Console, document: Document, cut: Cut) -> None:
    texts = parts(flow_lines(document), cut.chunks)
    for number, (chunk, meta, text) in enumerate(zip(cut.chunks, cut.metadata, texts, strict=True)):
        if context := meta.get("context"):
            out.print(Text(line(" | ".join(str(context).splitlines())), "dim italic"), soft_wrap=False)
        out.print(_row(number, beside(chunk, meta), text, out.width), soft_wrap=False)
        out.print()


def _row(number: int, beside_words: Beside, text: Sequence[Part], width: int) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=min(GUTTER, width // 3), no_wrap=True, overflow="ellipsis", style="dim")
    row.add_column(overflow="fold")
    margin = [
        f"{number + 1:<4}{beside_words.tokens}",
        beside_words.lines,
        *beside_words.headings,
        *beside_words.notes,
    ]
    coloured = ((show_controls(part.text), f"{ROLES[part.role]}{COLOURS[number % 2]}") for part in text)
    row.add_row(Text("\n".join(margin)), Text.assemble(*coloured))
    return row
