"""The engine's loop: list the sources, prepare documents that are due, and write the results."""
