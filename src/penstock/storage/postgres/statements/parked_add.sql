-- Let an event wait.
INSERT INTO penstock_parked_event (parked_id, "offset") VALUES (%s, %s) ON CONFLICT DO NOTHING
