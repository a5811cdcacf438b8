"""What the pages show of what they know: pure, but for the templates."""
