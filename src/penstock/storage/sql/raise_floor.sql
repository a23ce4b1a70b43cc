-- Raise the floor of the partition :partition_id to :floor, unless it is higher already.
UPDATE penstock_partition SET floor = :floor WHERE id = :partition_id AND floor < :floor
