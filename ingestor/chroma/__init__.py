"""Chroma: its server, its collections, its records."""
