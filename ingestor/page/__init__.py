"""Pages for people at the service port."""
