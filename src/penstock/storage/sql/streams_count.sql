-- Count the parked streams of a group.
SELECT count(*) FROM penstock_parked_stream WHERE "group" = :group
