-- Record the holes :ranges (a JSON array of pairs) of the partition :partition_id.
INSERT INTO penstock_hole (partition_id, start, stop)
SELECT :partition_id, json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:ranges)
