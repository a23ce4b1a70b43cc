"""Events as typed columns of Arrow: which columns a JSON Schema has, and the decoding of JSON into them."""
