"""The rules of the log: accepting events, cursors, and batches of event streams."""
