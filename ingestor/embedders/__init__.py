"""Embedders, which turn texts into vectors: one file for each kind, and code that they share."""
