"""Folders of this machine."""
