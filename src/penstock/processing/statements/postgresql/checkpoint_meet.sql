-- A stream is ahead no more: the position has passed it.
DELETE FROM {table}_ahead WHERE processor = :processor AND tranche = :tranche AND stream = :stream
