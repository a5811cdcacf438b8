"""The error that ends work when the program stops. Pure."""


class Stopped(Exception):
    """The program is stopping: the work is abandoned, and nothing of it was written."""
