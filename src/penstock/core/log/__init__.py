"""The rules of the log: which events it accepts, cursors into it, batches out of it."""
