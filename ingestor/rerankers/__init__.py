"""Cross-encoders that order the first hits of a search anew."""
