"""Cuts by meaning: exact mathematics on integers. Pure."""
