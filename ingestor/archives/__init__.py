"""Members of archives, mailboxes and mails."""
