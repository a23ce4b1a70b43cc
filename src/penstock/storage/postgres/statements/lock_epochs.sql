-- Keep other transactions from creating event types again, which have locked their names' epochs before anything else.
SELECT name FROM penstock_epoch ORDER BY name COLLATE "C" FOR UPDATE
