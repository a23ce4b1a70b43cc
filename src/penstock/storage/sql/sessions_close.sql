-- Delete the sessions :ids (a JSON array).
DELETE FROM penstock_session WHERE id IN (SELECT value FROM json_each(:ids))
