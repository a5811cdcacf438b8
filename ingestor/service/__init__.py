"""The service port: what the daemon answers over HTTP."""
