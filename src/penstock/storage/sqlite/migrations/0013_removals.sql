-- The number of times that events of a partition were removed one by one: pages in caches are known to be out of date by
-- it. Safe beside a running service. A trigger counts, so that removals of hubs of the version before count as well.
ALTER TABLE penstock_partition ADD COLUMN removals INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER penstock_hole_is_counted AFTER INSERT ON penstock_hole
BEGIN UPDATE penstock_partition SET removals = removals + 1 WHERE id = NEW.partition_id; END;
