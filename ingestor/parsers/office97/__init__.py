"""Files of Office before 2007, and of Outlook."""
