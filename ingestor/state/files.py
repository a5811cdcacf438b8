"""Paths of the files of a state. Pure."""

from pathlib import Path

from ingestor.config.models import Config

EVALUATION = "evaluation-"  # what names of evaluations begin with


def journal_path(config: Config) -> Path:
    return config.state / "journal.sqlite3"


def lock_path(config: Config) -> Path:
    return config.state / "lock"


def lexical_path(config: Config) -> Path:
    return config.state / "lexical.sqlite3"


def cache_path(config: Config) -> Path:
    return config.state / "cache.sqlite3"


def chroma_log_path(config: Config) -> Path:
    return config.state / "chroma.log"
