"""Documents that programs send."""
