"""The command line: words to calls, answers to text."""
