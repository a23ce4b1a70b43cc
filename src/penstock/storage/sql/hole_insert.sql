-- Record a hole.
INSERT INTO penstock_hole (partition_id, start, stop) VALUES (?, ?, ?)
