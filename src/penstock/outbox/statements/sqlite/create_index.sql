-- Finds the waiting events of one event type, in the order of their insertion.
CREATE INDEX IF NOT EXISTS penstock_outbox_waiting ON penstock_outbox (event_type, id)
