"""Prepares documents in processes on other machines."""
