"""Strategies that ask a language model."""
