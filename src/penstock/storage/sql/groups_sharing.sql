-- Select up to :limit groups whose members share, by name, after :after.
SELECT name FROM penstock_group WHERE shared IS NOT NULL AND name COLLATE "C" > :after ORDER BY name COLLATE "C" LIMIT :limit
