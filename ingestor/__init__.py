"""Keeps Chroma collections exactly in step with the documents people have."""

__version__ = "0.1.0"
