-- Lock a group's positions in the order in which they are stored; a DELETE has no order.
SELECT tranche FROM penstock_position WHERE "group" = :name
ORDER BY source COLLATE "C", slice COLLATE "C", tranche FOR UPDATE
