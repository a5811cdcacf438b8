"""Everything about Chroma: its server, its collections, and their records."""
