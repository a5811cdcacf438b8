"""Embedders behind a server."""
