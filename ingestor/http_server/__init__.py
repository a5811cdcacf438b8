"""Servers of HTTP: who may ask, and what bounds every request."""
