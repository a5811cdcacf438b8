"""Strategies that cut by meaning."""
