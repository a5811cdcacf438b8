"""Queries and requests of commands and web pages. They also work while a daemon runs."""
