"""Figures of a plan, and estimates for all documents from a sample of them."""
