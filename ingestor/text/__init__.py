"""Spans of a text: sentences, sections, tokens, limits. Pure."""
