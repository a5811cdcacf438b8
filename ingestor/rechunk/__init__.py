"""Decides how a changed config affects a collection, and switches readers to a rebuilt collection
(blue-green)."""
