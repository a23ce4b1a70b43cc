-- A range of events as one value: Python lets other threads go first at every row, so there is one row. An aggregate takes
-- the rows as the one scan by primary key gives them, in order; a subquery that sorts would cost a third more.
SELECT count(*), count(*), CAST(:prefix || group_concat(data, :separator) || :suffix AS BLOB)
FROM penstock_event
WHERE place >= :first AND place < :past
