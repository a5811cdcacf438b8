"""Questions to the journal."""
