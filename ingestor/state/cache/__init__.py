"""The cache: costly results that may be deleted and made again."""
