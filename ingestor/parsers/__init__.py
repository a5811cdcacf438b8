"""Parsers, which read the bytes of a file into a document of text and blocks: one file per format."""
