"""Parsers of Office Open XML (DOCX, PPTX, XLSX), and code that other formats of word processors share."""
