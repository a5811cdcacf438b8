"""The cache: costly results, which can be deleted and computed again."""
