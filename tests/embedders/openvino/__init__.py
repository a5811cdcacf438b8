"""Encoders run by OpenVINO."""
