"""Settings, permissions, sweeping."""
