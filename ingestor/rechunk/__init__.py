"""What a changed config does to a collection: decided, then done by a blue-green switch."""
