-- Wait for others who are making the same tables: IF NOT EXISTS alone does not.
SELECT pg_advisory_xact_lock(hashtext(:table))
