-- Select a group's positions in one slice of a source.
SELECT tranche, epoch, "offset" FROM penstock_position
WHERE "group" = :group AND source = :source AND slice = :slice
