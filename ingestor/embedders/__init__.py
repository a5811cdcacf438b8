"""Texts to vectors: one file per kind."""
