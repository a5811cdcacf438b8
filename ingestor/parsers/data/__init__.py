"""Data formats: each becomes blocks that know their path."""
