"""Assemble the pages of the site: Markdown of the repository, references made from the code, llms.txt.

``python website/assemble.py FOLDER``. Links between pages follow their new places, and name a page by its
title; a link to a file that is no page becomes its name. Searches rank decisions and the changelog last.
"""

import dataclasses
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from typer.main import get_command

import ingestor
from ingestor.cli.main import app
from ingestor.project import Project

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(((?!https?:|mailto:|#)[^)#\s]*)(#[^)\s]*)?(?: \"[^\"]*\")?\)")
RESULTS = ("SyncPlan", "SyncReport", "Status", "Verification", "Answer", "SyncProgress")
ERRORS = ("IngestorError", "ConfigError", "BadRequest", "NeedsHuman", "Locked", "Transient", "Torn", "Gone")
PLUGIN_API = ("Connector", "Parser", "Chunker", "Embedder")
LAST = "---\nsearch: {boost: 0.1}\n---\n"  # a page that a search finds after the others
WIDTH = 80  # columns of a block of code


def sources() -> dict[Path, str]:
    """Return the pages of the repository: the place of each in the site."""
    pages = {
        ROOT / "README.md": "index.md",
        ROOT / "docs/README.md": "documentation.md",
        ROOT / "examples/README.md": "examples.md",
    }
    pages |= {path: path.name for path in ROOT.glob("*.md") if path not in pages}
    pages |= {path: path.name for path in ROOT.glob("docs/*.md") if path not in pages}
    return pages | {
        path: str(path.relative_to(ROOT / "docs"))
        for folder in ("decisions", "releases")
        for path in (ROOT / "docs" / folder).glob("*.md")
    }


def moved(page: Path, text: str, pages: dict[Path, str]) -> str:
    """Return the text of a page with links that lead to where the pages are now."""
    up = "../" * pages[page].count("/")

    def link(found: re.Match[str]) -> str:
        image, words, path, anchor = found[1], found[2], found[3], found[4] or ""
        target = (page.parent / path).resolve()
        if target in pages:
            shown = title(target.read_text("utf-8")) if words == target.name else words
            return f"[{shown}]({up}{pages[target]}{anchor})"
        if image:
            return f"![{words}]({up}{target.name})"
        if target == ROOT / "docs/decisions":
            return f"[{words}]({up}decisions/0001-reconciler-not-event-pipeline.md)"
        return words if words.startswith("`") else f"`{words}`"

    return LINK.sub(link, text)


def title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")


def options() -> str:
    """Return the reference of commands: usage, words and options of each, as the program has them."""
    parts = [
        "# Options of commands",
        "",
        "Made from the program. [Commands](commands.md) explains the output.",
    ]
    commands: dict[str, click.Command] = getattr(get_command(app), "commands")  # noqa: B009 - typed as any command
    for name, command in commands.items():
        if command.hidden:
            continue
        words = inspect.cleandoc(command.help or "")
        parts += ["", f"## {name}", "", words, "", "| Argument or option | Meaning |", "|---|---|"]
        for parameter in command.params:
            if parameter.name == "help":
                continue
            names = [*parameter.opts, *parameter.secondary_opts]
            shown = ", ".join(f"`{each}`" for each in names)
            if parameter.param_type_name == "argument":
                shown = f"`{(parameter.name or '').upper()}`"
            meaning = (getattr(parameter, "help", None) or "").replace("|", "\\|")
            parts.append(f"| {shown} | {meaning} |")
    return "\n".join(parts) + "\n"


def api() -> str:
    """Return the reference of the library and of the plugin API, from signatures and docstrings."""
    parts = ["# Python API", "", "Made from the code. [The library](library.md) explains how to use it."]
    parts += ["", "## Project", "", *described(Project)]
    for name, method in vars(Project).items():
        if callable(method) and not name.startswith("_") and name != "of":
            parts += ["", f"### {name}", "", *signature(name, method), "", *described(method)]
    parts += ["", "## Results"]
    for name in RESULTS:
        parts += ["", *fields(name, getattr(ingestor, name))]
    parts += ["", "## Errors", "", "| Error | Meaning |", "|---|---|"]
    parts += [f"| `{name}` | {' '.join(described(getattr(ingestor, name)))} |" for name in ERRORS]
    ports = import_module("ingestor.ports")
    parts += [
        "",
        "## Plugin API",
        "",
        "[Contributing](CONTRIBUTING.md#adding-a-part) shows how to write a part.",
    ]
    for name in PLUGIN_API:
        protocol = getattr(ports, name)
        parts += ["", f"### {name}", "", *described(protocol)]
        for method, function in vars(protocol).items():
            if inspect.isfunction(function) and not method.startswith("_"):
                parts += ["", *signature(method, function), "", *described(function)]
    return "\n".join(parts) + "\n"


def signature(name: str, function: Any) -> Iterator[str]:
    """Return a block of code; each argument has a line if they do not fit on one."""
    found = inspect.signature(function)
    arguments = [each for each in found.parameters.values() if each.name != "self"]
    one = f"{name}{found.replace(parameters=arguments)}".replace("'", "")
    if len(one) > WIDTH:
        star = any(each.kind is each.KEYWORD_ONLY for each in arguments)
        first = next((n for n, each in enumerate(arguments) if each.kind is each.KEYWORD_ONLY), 0)
        lines = [str(each) for each in arguments]
        lines[first:first] = ["*"] if star else []
        result = one.rpartition(" -> ")[2]
        one = "\n".join([f"{name}(", *(f"    {line},".replace("'", "") for line in lines), f") -> {result}"])
    yield from ("```python", one, "```")


def described(thing: Any) -> list[str]:
    return (inspect.getdoc(thing) or "").replace("``", "`").splitlines()


def fields(name: str, kind: Any) -> Iterator[str]:
    yield from (f"### {name}", "", *described(kind), "", "| Field | Type |", "|---|---|")
    for field in dataclasses.fields(kind):
        shown = (
            field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
        )
        yield f"| `{field.name}` | `{shown}` |".replace(" | None`", " or None`")


def index_for_models(pages: dict[str, str]) -> str:
    """Return llms.txt: a line for each page with its first sentence."""
    lines = [
        "# ingestor",
        "",
        "> Keeps Chroma collections exactly in step with your documents.",
        "",
        "## Pages",
        "",
    ]
    for name, text in sorted(pages.items()):
        if "/" in name:
            continue
        plain = re.sub(r"(?ms)^```.*?^```|^(?:[|#!]|- |\d+\. ).*?$", "", text.partition("\n")[2])
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)  # a link's address says nothing here
        parts = (" ".join(each.split()) for each in plain.split("\n\n"))
        sentences = re.split(r"(?<=\.) ", next((each for each in parts if each.endswith(".")), ""))
        lines.append(f"- [{title(text)}]({name.removesuffix('.md')}.html): {sentences[0]}")
    return "\n".join(lines) + "\n"


def main(folder: str) -> None:
    place, pages = Path(folder), sources()
    shutil.rmtree(place, ignore_errors=True)
    written = {name: moved(path, path.read_text("utf-8"), pages) for path, name in pages.items()}
    written |= {"options.md": options(), "api.md": api()}
    for name, text in written.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        last = "/" in name or name == "CHANGELOG.md"
        (place / name).write_text(LAST + text if last else text, "utf-8")
    for picture in (*ROOT.glob("docs/*.png"), *ROOT.glob("docs/*.svg")):
        shutil.copy(picture, place)
    (place / "llms.txt").write_text(index_for_models(written), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
