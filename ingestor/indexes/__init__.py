"""Where records live: one file per kind."""
