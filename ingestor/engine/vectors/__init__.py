"""From texts to vectors: through the cache, from all workers, by a model here or a server."""
