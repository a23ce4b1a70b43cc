-- Select the history of a group, newest first; only entries before :before unless that is NULL.
SELECT source, slice, tranche, kind, epoch, came_from, went_to, reason, at, id FROM penstock_intervention
WHERE "group" = :name AND (CAST(:before AS BIGINT) IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit
