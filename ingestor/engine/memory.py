"""Memory that was freed goes back to the system.

The C library keeps what threads freed, for their next work, which may never come.
"""

import ctypes


def give_back() -> None:
    """Takes some milliseconds. Does nothing where the C library is not glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
