"""Vectors from a server with OpenAI's API for embeddings."""
