"""The daemon's service port: health, metrics, embeddings, searches and documents over HTTP."""
