"""HTTP for the clients: requests, proxies, transports."""
