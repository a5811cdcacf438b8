"""Modules that are imported when they are first used.

Every worker of pytest imports all test files, and torch takes seconds to import; few workers run these tests.
"""

from importlib import import_module
from typing import Any


class Lazily:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
