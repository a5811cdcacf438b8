"""Modules that are imported when they are first used.

Every worker of pytest imports all test files, and torch takes seconds to import; few workers run these tests.
pytest asks every name of a test file for attributes of its own, such as ``__wrapped__``: they import nothing.
"""

from functools import cache
from importlib import import_module
from typing import Any


class Lazily:
    """A module that needs torch."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        _prepare_torch()
        return getattr(import_module(self._name), attribute)


@cache
def _prepare_torch() -> None:
    """Before any test here uses it: after its first matrix product, the arithmetic could not be chosen.

    Its threads wait for one another, for minutes where others use the processor: there is one.
    """
    import torch

    from ingestor.embedders.torch_model import fix_arithmetic

    torch.set_num_threads(1)
    fix_arithmetic()
