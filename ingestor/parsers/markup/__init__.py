"""Parsers of markup languages that people write by hand, such as Markdown."""
