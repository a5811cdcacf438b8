"""Consequences of a changed config for a collection: a decision, then a blue-green switch."""
