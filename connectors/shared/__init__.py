"""What connectors of several kinds share."""
