-- Delete the rows of the event type :name up to :id.
DELETE FROM penstock_outbox WHERE event_type = :name AND id <= :id
