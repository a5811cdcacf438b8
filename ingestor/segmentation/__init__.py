"""Where to cut by meaning: exact mathematics on integers. Pure."""
