"""Clients as light as can be, each in a process of its own, so that it is the server that is measured."""
