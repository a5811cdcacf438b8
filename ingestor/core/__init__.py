"""Decisions and values of the program that need no input or output. Pure."""
