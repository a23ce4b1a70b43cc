"""The rules: no I/O, no clock, no framework."""
