"""The cold tier of a hub: seals events into files, checks and moves them, and makes feeds of them again."""
