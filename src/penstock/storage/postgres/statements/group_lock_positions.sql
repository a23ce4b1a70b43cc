-- Lock a group's places in the order in which they are stored: a DELETE has none of its own.
SELECT tranche FROM penstock_position WHERE "group" = :name
ORDER BY source COLLATE "C", slice COLLATE "C", tranche FOR UPDATE
