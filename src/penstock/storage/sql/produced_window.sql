-- Select how many batches of an epoch of a producer are stored, and where they begin and end.
SELECT count(*), min(number),
       (SELECT number + events FROM penstock_produced
        WHERE producer_id = :producer_id AND epoch = :epoch ORDER BY number DESC LIMIT 1),
       (SELECT "offset" + events - 1 FROM penstock_produced
        WHERE producer_id = :producer_id AND epoch = :epoch ORDER BY number DESC LIMIT 1)
FROM penstock_produced WHERE producer_id = :producer_id AND epoch = :epoch
