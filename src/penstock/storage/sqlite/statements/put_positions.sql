-- Insert or replace the positions :positions (a JSON array of source, slice, tranche, epoch, offset) of a group.
INSERT INTO penstock_position ("group", source, slice, tranche, epoch, "offset", updated_at)
SELECT :group, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, :at
FROM json_each(:positions) WHERE true
ON CONFLICT ("group", source, slice, tranche)
DO UPDATE SET epoch = excluded.epoch, "offset" = excluded."offset", updated_at = excluded.updated_at
