"""The last listing of a source, and what a new one changes."""
