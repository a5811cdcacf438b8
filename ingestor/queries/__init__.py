"""Queries and requests of commands and pages. They work beside a running daemon."""
