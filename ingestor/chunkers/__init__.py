"""Ways to cut a document: one file per strategy."""
