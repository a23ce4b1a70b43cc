"""The cold tier of a database: its manifest, and its log, which reads events from wherever they are."""
