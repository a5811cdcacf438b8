"""Markup that people write by hand."""
