"""Configs as tests write them, and what is said of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from ingestor.config.check import check
from ingestor.config.models import Config, describe
from ingestor.config.yaml_tree import parse

ROOT = Path(__file__).parents[2]
AT = Path("/conf")
SOURCE = "sources:\n  - {name: a, kind: folder, path: docs, collection: abc}\n"


def load_text(text: str, env: Mapping[str, str] | None = None) -> Config:
    """The config of a text that must be good, as if it lay in ``AT``."""
    config = check(parse(dedent(text), env or {}), AT)
    assert isinstance(config, Config), describe("config.yaml", config)
    return config


def mistakes(text: str, env: Mapping[str, str] | None = None) -> list[str]:
    """``line: problem`` for everything that is wrong with a text."""
    problems = check(parse(dedent(text), env or {}), AT)
    assert not isinstance(problems, Config)
    return [f"{problem.line}: {problem}" for problem in problems]


def source(**keys: object) -> str:
    """A config of one source on one line, with these keys besides or instead of the usual ones."""
    usual = {"name": "a", "kind": "folder", "path": "docs", "collection": "abc"}
    return f"sources: {json.dumps([usual | keys])}\n"
