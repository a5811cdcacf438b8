"""The way of one document: listed, read, chunked, compared, embedded."""
