"""The console: an app for browsers that shows a hub, and acts on it by the hub's HTTP interface.

`static` has the app, modules of JavaScript that a browser loads as they are. `vendor` has the libraries that it uses;
`scripts/setup-assets` loads them. The server only hands these files out: they hold no data, so nobody needs a
permission for them, and the app sends the credential of its user with each request for data.
"""
