"""A new listing against the last one. Pure."""
