"""The pages for people at the service port."""
