"""Configured kinds become parts, here and on the nodes of a cluster."""
