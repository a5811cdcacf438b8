"""Questions about documents: read from a file, or made from the documents."""
