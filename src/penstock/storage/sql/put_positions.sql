-- Insert or replace the positions :positions (a JSON array of source, slice, tranche, epoch, offset) of a group.
INSERT INTO penstock_position ("group", source, slice, tranche, epoch, "offset", updated_at)
SELECT :group, item ->> 0, item ->> 1, CAST(item ->> 2 AS integer), CAST(item ->> 3 AS integer),
       CAST(item ->> 4 AS bigint), :at
FROM (SELECT as_json(value) AS item FROM json_each(:positions)) AS given
WHERE true  -- Else SQLite reads ON as that of a join.
ON CONFLICT ("group", source, slice, tranche)
DO UPDATE SET epoch = excluded.epoch, "offset" = excluded."offset", updated_at = excluded.updated_at
