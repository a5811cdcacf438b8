"""Errors that end work early without loss. Pure."""


class Slow(Exception):
    """The document takes longer than a first attempt may: it waits for a turn among the slow documents."""


class Stopped(Exception):
    """Nobody wants the work any more, or the program ends: it is abandoned, and nothing of it was written."""
