-- Delete the parked streams of a dropped source. Skip those that are locked: they belong to a dropped feed and say so.
DELETE FROM penstock_parked_stream
WHERE id IN (SELECT id FROM penstock_parked_stream WHERE source = :source FOR UPDATE SKIP LOCKED)
