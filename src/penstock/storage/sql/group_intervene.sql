-- Record what was done to a group.
INSERT INTO penstock_intervention ("group", source, slice, tranche, kind, epoch, came_from, went_to, reason, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
