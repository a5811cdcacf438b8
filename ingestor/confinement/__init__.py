"""Confinement of processes that read hostile bytes: no network, few files, few system calls."""
