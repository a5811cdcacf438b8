"""Documents prepared in processes on other machines."""
