"""The members of archives, mailboxes and mails."""
