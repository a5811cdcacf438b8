"""Read and check the config file, and explain its mistakes."""
