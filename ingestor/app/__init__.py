"""The composition of the program: parts built from the config, and the daemon that runs them."""
