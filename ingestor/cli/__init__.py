"""The command line: arguments to calls, results to text."""
