"""Command ``evaluate``: measures which chunking retrieves most in people's own documents."""
