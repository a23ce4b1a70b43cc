"""HTTP itself: connections, headers, bodies, encodings, problems."""
