"""What Django is to know of the outbox app."""

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """The app, labelled so that its name cannot meet another's."""

    name = "penstock.outbox.django"
    label = "penstock_outbox"
    verbose_name = "Penstock outbox"
