"""The guard on the port of our Chroma: who gets in, and that indexes are loaded one by one."""
