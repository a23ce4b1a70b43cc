"""The rules of event types: their definition and its replacement."""
