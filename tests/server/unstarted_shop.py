"""An application that mounts the hub and does not hand its lifespan on."""

from fastapi import FastAPI

from penstock.server import HubApp

app = FastAPI()
app.mount("/events", HubApp("sqlite:///shop.db"))
