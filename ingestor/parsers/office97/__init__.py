"""Parsers of the binary files of Office before 2007, and of Outlook."""
