"""Encoders run by OpenVINO, without torch and transformers."""
