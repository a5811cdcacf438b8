"""Computes cuts by meaning, exactly, in integers. Pure."""
