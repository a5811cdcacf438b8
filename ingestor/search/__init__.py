"""Search: fuses hits by vectors and by words, and builds passages with their surroundings."""
