-- Record a position, whatever stood there.
INSERT INTO penstock_position ("group", source, slice, tranche, epoch, "offset", updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT ("group", source, slice, tranche)
DO UPDATE SET epoch = excluded.epoch, "offset" = excluded."offset", updated_at = excluded.updated_at
