-- Remember that a position was moved.
INSERT INTO {table}_history (processor, tranche, at, came_from, went_to, reason)
VALUES (:processor, :tranche, :now, :came_from, :went_to, :reason)
