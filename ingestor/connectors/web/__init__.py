"""Websites and feeds."""
