-- Keep who has which tranches.
UPDATE {table}_leases SET shared = :shared WHERE processor = :processor
