-- Of each of :positions (a JSON array of [partition, offset]) when the first event at that offset or after it was received;
-- left out where there is none. One look into the index for each.
SELECT json_extract(asked.value, '$[0]'), e.received_at
FROM json_each(:positions) AS asked
JOIN penstock_event AS e
  ON e.place = (SELECT min(place) FROM penstock_event
                WHERE place >= (json_extract(asked.value, '$[0]') << 40) + json_extract(asked.value, '$[1]')
                  AND place < json_extract(asked.value, '$[0]') + 1 << 40)
