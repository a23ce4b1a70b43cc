"""`penstock event-type`: creates event types, shows and deletes them, and keeps them as files define them."""
