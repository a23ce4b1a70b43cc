-- The number of times that events of a partition were removed one by one: pages in caches are known to be out of date by
-- it. Safe beside a running service. A trigger counts, so that removals of hubs of the version before count as well.
ALTER TABLE penstock_partition ADD COLUMN removals bigint NOT NULL DEFAULT 0;

CREATE FUNCTION penstock_hole_is_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE penstock_partition SET removals = removals + 1 WHERE id IN (SELECT partition_id FROM new_holes);
    RETURN NULL;
END $$;

CREATE TRIGGER penstock_hole_is_counted AFTER INSERT ON penstock_hole
    REFERENCING NEW TABLE AS new_holes FOR EACH STATEMENT EXECUTE FUNCTION penstock_hole_is_counted();
