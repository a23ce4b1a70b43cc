-- The heads of the partitions :ids; those whose event type is gone are left out. Where the heads were locked first,
-- this is a statement of its own, so that its snapshot is younger than the locks. Events below the floor, which are being
-- deleted, are not looked at. The last column is the timeline of the primary: see `PrimaryHistory`.
SELECT id, revision, floor, next_offset, received_at, holes_stop, removals, cold_stop, timeline
FROM penstock_look(NULL, NULL, :ids::integer[]) WHERE id IS NOT NULL
