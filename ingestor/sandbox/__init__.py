"""Confined processes that parse hostile bytes."""
