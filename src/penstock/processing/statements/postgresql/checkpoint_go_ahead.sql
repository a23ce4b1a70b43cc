-- A stream is ahead, up to an index.
INSERT INTO {table}_ahead (processor, tranche, stream, next_index)
VALUES (:processor, :tranche, :stream, :next)
ON CONFLICT (processor, tranche, stream) DO UPDATE SET next_index = excluded.next_index
