"""Files of our own: the journal, the cache, the lock."""
