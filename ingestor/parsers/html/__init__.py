"""Parser of HTML pages."""
