"""The config file: read, checked, and its mistakes explained."""
