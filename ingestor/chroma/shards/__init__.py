"""Collections that are each made of several in Chroma."""
