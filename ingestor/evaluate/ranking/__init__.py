"""Rankings: the chunks that a question gets, by vectors and by words, and their scores."""
