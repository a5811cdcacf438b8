"""Connectors: a file or folder for each kind of source."""
