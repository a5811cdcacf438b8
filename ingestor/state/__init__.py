"""Our own files: the journal, the cache, the lock."""
