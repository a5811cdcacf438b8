"""Lists sources, and prepares one document at a time: read, chunk, compare with the journal, embed."""
