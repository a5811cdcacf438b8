"""Prepares one document: list, read, chunk, compare, embed."""
