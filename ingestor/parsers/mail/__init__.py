"""Parser of e-mail messages."""
