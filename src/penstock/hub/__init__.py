"""The rules of the hub over a store; no database driver and no HTTP."""
