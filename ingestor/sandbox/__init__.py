"""Processes that read hostile bytes, and the walls around them."""
