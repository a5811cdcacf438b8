"""The program: what is built from the config, what runs, and what commands ask."""
