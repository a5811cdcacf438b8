"""The program: parts built from the config, the daemon, and the queries of commands."""
