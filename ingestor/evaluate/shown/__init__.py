"""The page of ``evaluate --html``."""
