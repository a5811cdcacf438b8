"""Files behind fsspec, and queues of notifications about them."""
