"""Confined processes that parse documents and open archives whose bytes may be hostile."""
