"""`penstock restored`: tells the hub that a backup has been put back."""

from penstock.cli.options import DATABASE, DatabaseOption, OutputOption


def restored(database: DatabaseOption = DATABASE, output: OutputOption = "text") -> None:
    """Say that the database was put back from a backup, so that no cursor into what it has lost is taken.

    Every feed gets a new epoch: a consumer that has read further than the backup reaches is answered 410 and told so,
    instead of being handed other events than those it has seen. Run it once, after the restore and before the hub
    starts again.
    """
    from penstock.cli.database import find_operator, opened
    from penstock.cli.output import counted, print_json, say
    from penstock.hub.hub import Hub

    with opened(database) as store:
        store.check(restoring=True)
        feeds = Hub(store).registry.raise_epochs(find_operator())
        shown = store.url
    if output == "json":
        print_json({"database": shown, "feeds": feeds})
    else:
        has = "has" if feeds == 1 else "have"
        say(f"{shown}: {counted(feeds, 'feed')} {has} a new epoch; consumers begin again where they choose to.")
