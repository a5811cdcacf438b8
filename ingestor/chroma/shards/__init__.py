"""One collection made of several in Chroma."""
