-- Park an event of a key.
INSERT INTO penstock_parked_event (parked_id, "offset") VALUES (?, ?) ON CONFLICT DO NOTHING
