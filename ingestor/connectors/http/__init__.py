"""HTTP requests of connectors: only to allowed addresses, with limits for responses."""
