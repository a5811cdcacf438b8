"""The program's own files in the state folder: the journal, the cache, the lock and the progress."""
