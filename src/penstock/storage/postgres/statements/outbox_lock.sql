-- Keep other transactions from moving rows of one event type until this one ends.
SELECT pg_advisory_xact_lock(:class, hashtext(:name))
