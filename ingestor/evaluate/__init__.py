"""``ingestor evaluate``: which chunking finds the most in the documents that people have."""
