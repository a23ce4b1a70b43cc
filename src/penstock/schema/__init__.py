"""JSON Schema for event types: parse, bound, validate, compare, judge changes, check guidelines. No I/O."""
