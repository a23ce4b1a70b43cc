-- Which event types have rows that the snapshot (:xmax, :running) could not see, the snapshot of this look, and then the
-- heads of the partitions :ids. The rows' place in the index is where the last look ended: rows that were moved long ago
-- and that a long transaction keeps from being vacuumed are not looked at again.
SELECT * FROM penstock_look(:xmax::text, :running::text[], :ids::integer[])
