"""Facts that must be the same on every node: documents that two versions prepared would not fit together."""

import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from ingestor import __version__
from ingestor.pipeline.prepare import Tools
from ingestor.ports import NeedsHuman
from ingestor.registry import entries

MODEL = "embedding model"
_MOST = 8  # differences that a message names
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def versions() -> dict[str, str]:
    """Return the versions of this program, of Python and of the required packages, as installed here."""
    known = {"ingestor": __version__, "Python": platform.python_version()}
    own = next(entry.dist for entry in entries("parsers") if entry.module == "ingestor.parsers.text")
    for line in (own.requires if own is not None else None) or ():
        name = _NAME.match(line)
        if name is not None and "extra ==" not in line:
            known[f"package {name[0]}"] = _version_of(name[0])
    return known


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def recipes_of(tools: Tools) -> dict[str, str]:
    """Fingerprints of all that decides the records of a source, by part."""
    parsers = {f"parser {kind}": str(recipe) for kind, recipe in tools.reader.recipes.items()}
    return {
        **parsers,
        f"strategy {tools.strategy}": tools.chunker_recipe,
        MODEL: tools.embedder_recipe,
        "rules of the program": tools.recipe(""),
    }


def require_same(ours: Mapping[str, str], theirs: Mapping[str, str], hint: str) -> None:
    """Raises NeedsHuman, naming what differs."""
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if not names:
        return
    differences = [
        f"{name} ({theirs.get(name, 'none')} there, {ours.get(name, 'none')} here)" for name in names
    ]
    more = f", and {len(differences) - _MOST} more" if len(differences) > _MOST else ""
    raise NeedsHuman(f"differs from the daemon: {', '.join(differences[:_MOST])}{more}: {hint}")
