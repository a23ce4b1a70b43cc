"""Where processors keep how far they are."""
