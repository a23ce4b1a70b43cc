"""JSON Schema for event types: validate, compare, evolve, bound, check against the guidelines. Knows no hub."""
