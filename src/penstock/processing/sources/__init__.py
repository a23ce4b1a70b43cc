"""Where processors read from."""
