"""Bytes to text with structure: one file per kind."""
