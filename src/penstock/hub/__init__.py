"""What the hub does; knows the store, no database and no HTTP."""
