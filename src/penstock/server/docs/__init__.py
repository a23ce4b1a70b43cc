"""The page that shows the HTTP interface to people, from its OpenAPI description: `pages.py`.

`static` has the page's own files; `vendor` Swagger UI, which `scripts/setup-assets` loads. See
docs/decisions/README.md.
"""
