"""Chunkers, which cut a document into chunks: one file for each strategy, or for strategies of one kind."""
