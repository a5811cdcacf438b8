"""Service port: what the daemon answers over HTTP."""
