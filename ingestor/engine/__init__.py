"""The one loop: list, dispatch, write."""
