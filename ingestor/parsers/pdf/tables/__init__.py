"""Tables of PDFs."""
