"""Which chunks a question gets, by vectors and by words, and what they are worth."""
