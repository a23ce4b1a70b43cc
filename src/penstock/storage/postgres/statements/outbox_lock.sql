-- Keep other movers away from one event type until the transaction ends.
SELECT pg_advisory_xact_lock(:class, hashtext(:name))
