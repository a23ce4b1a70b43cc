-- What was done to a group, the newest first: only what was recorded before %(before)s, unless that is NULL.
SELECT source, slice, tranche, kind, epoch, came_from, went_to, reason, at, id FROM penstock_intervention
WHERE "group" = %(name)s AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC LIMIT %(limit)s
