-- Which of the event types :names (a JSON array; NULL: any) have rows in the outbox. What is no text names nothing.
SELECT CAST(name AS BLOB) FROM (
    SELECT value AS name FROM json_each(:names) WHERE :names IS NOT NULL
    UNION ALL
    SELECT DISTINCT event_type FROM penstock_outbox WHERE :names IS NULL)
WHERE typeof(name) = 'text' AND EXISTS (SELECT 1 FROM penstock_outbox WHERE event_type = name)
