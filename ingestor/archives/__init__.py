"""Opens archives, mailboxes and mails, and reads their members."""
