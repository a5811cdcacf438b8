"""HTTP servers: access rules, and limits of every request."""
