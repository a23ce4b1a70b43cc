-- A group's positions in one slice of a source.
SELECT tranche, epoch, "offset" FROM penstock_position
WHERE "group" = %(group)s AND source = %(source)s AND slice = %(slice)s
