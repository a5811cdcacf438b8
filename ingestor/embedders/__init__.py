"""Embedders, which turn texts into vectors: one file per kind."""
