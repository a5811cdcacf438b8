"""Parser of PDF, with pdfium; OCR of pages that are pictures is optional."""
