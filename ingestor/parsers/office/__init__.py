"""Office Open XML: DOCX, PPTX, XLSX."""
