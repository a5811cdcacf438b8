"""OpenDocument: ODT, ODS, ODP."""
