"""``ingestor chunk``: how strategies would cut a file."""
