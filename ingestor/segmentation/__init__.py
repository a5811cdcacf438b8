"""Computes where to cut a text by meaning, and the vectors of the chunks, exactly and in integers. Pure."""
