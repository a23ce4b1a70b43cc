"""The hub over HTTP."""

from penstock.server.app import HubApp

__all__ = ["HubApp"]
