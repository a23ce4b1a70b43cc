"""Settings, permissions, tokens, sweeping."""
