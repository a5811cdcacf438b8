"""The lexical index: the words of each record, in one SQLite file beside the journal."""
