"""The composition: parts built from the config, and the daemon that runs them."""
