-- Forget every group's place in a source that is gone. Those places were locked before; one that was first stored since then
-- and that somebody holds is left out, or the two would wait for each other: it is of a feed that is gone, and says so.
DELETE FROM penstock_position AS p
USING (SELECT "group", slice, tranche FROM penstock_position
       WHERE source = :source FOR UPDATE SKIP LOCKED) AS free
WHERE p.source = :source AND p."group" = free."group" AND p.slice = free.slice AND p.tranche = free.tranche
