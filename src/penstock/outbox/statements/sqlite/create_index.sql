-- Finds what waits for one event type, in the order in which it was inserted.
CREATE INDEX IF NOT EXISTS penstock_outbox_waiting ON penstock_outbox (event_type, id)
