"""Ways to find out who sends a request, one module each."""
