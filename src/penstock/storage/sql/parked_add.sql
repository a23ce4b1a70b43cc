-- Let an event wait.
INSERT INTO penstock_parked_event (parked_id, "offset") VALUES (?, ?) ON CONFLICT DO NOTHING
