"""Walls around a process that reads hostile bytes, and the privileges it gives up."""
