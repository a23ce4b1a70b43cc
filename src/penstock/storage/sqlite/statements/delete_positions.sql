-- Delete all positions in a dropped source.
DELETE FROM penstock_position WHERE source = :source
