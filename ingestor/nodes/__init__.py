"""Prepares and embeds documents in processes on the nodes of a Ray cluster (docs/ray.md)."""
