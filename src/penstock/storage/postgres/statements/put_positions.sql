-- Insert or replace the positions :positions (a JSON array of source, slice, tranche, epoch, offset) of a group.
INSERT INTO penstock_position ("group", source, slice, tranche, epoch, "offset", updated_at)
SELECT :group, value ->> 0, value ->> 1, (value ->> 2)::integer, (value ->> 3)::integer, (value ->> 4)::bigint, :at
FROM json_array_elements(:positions::json) AS value
ON CONFLICT ("group", source, slice, tranche)
DO UPDATE SET epoch = excluded.epoch, "offset" = excluded."offset", updated_at = excluded.updated_at
