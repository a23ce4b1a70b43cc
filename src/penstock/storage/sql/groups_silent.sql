-- Select up to :limit groups that report their positions and have not done so since :before.
SELECT name FROM penstock_group AS g
WHERE kind = 'reported' AND created_at < :before
  AND NOT EXISTS (SELECT 1 FROM penstock_position AS p WHERE p."group" = g.name AND p.updated_at >= :before)
ORDER BY name COLLATE "C" LIMIT :limit
