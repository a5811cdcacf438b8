"""Parsers of data formats, whose blocks carry their path in the data, such as ``users[3].name``."""
