"""Modules that are imported when they are first used.

Every worker of pytest imports all test files, and torch takes seconds to import; few workers run these tests.
pytest asks every name of a test file for attributes of its own, such as ``__wrapped__``: they import nothing.
"""

from importlib import import_module
from typing import Any


class Lazily:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)
