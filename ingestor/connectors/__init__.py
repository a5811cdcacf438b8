"""Connectors, one file or folder a kind."""
