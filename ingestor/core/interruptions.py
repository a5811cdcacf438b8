"""Errors that end work early without loss. Pure."""


class Slow(Exception):
    """The document takes longer than a first attempt may: it waits for a turn among the slow documents."""


class Stopped(Exception):
    """The program is stopping: the work is abandoned, and nothing of it was written."""
