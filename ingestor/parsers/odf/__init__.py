"""Parser of OpenDocument files (ODT, ODS, ODP)."""
