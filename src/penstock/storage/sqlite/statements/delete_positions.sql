-- Forget every group's place in a source that is gone.
DELETE FROM penstock_position WHERE source = :source
