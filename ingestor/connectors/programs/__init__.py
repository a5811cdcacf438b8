"""Other people's programs and Python code."""
