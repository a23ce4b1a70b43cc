-- Add an entry to the history of a group.
INSERT INTO penstock_intervention ("group", source, slice, tranche, kind, epoch, came_from, went_to, reason, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
