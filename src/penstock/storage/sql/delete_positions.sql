-- Delete all positions in a dropped source. They were locked before. Skip a position that was first stored since then
-- and is locked, or the transactions would deadlock; it belongs to a dropped feed and says so.
DELETE FROM penstock_position
WHERE ("group", source, slice, tranche) IN (SELECT "group", source, slice, tranche FROM penstock_position
                                            WHERE source = :source FOR UPDATE SKIP LOCKED)
