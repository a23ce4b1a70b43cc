"""Routes of subscriptions, their cursors, streams and parked keys."""
