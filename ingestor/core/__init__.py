"""Decisions and values that need no I/O. Pure."""
