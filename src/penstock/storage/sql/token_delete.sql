-- Delete a token.
DELETE FROM penstock_token WHERE id = :id
