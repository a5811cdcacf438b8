"""The lexical index: which words are in which record, in one SQLite file beside the journal."""
