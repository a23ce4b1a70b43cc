"""Definitions of event types in files: read from YAML or JSON, every value with the line on which it stands."""
