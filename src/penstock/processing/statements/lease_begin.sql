-- Have a row for a processor, and lock it.
INSERT INTO {table}_leases AS penstock_kept (processor, shared) VALUES (:processor, '{}')
ON CONFLICT (processor) DO UPDATE SET shared = penstock_kept.shared
