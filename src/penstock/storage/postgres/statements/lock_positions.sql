-- Lock all positions in a source in the order in which they are stored; a DELETE has no order.
SELECT tranche FROM penstock_position WHERE source = :source
ORDER BY "group" COLLATE "C", slice COLLATE "C", tranche FOR UPDATE
