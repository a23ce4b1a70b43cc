-- Select where a group keeps its positions; NULL: here.
SELECT kept_at FROM penstock_group WHERE name = :name
