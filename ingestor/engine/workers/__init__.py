"""Threads that prepare documents and list sources, and what they hand back."""
