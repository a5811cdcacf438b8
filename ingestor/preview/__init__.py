"""Shows how strategies would cut a file, for ``ingestor chunk``."""
