"""`penstock restored`: tells the hub that a backup has been put back."""

from penstock.cli.options import DATABASE, DatabaseOption, OutputOption, YesOption


def restored(database: DatabaseOption = DATABASE, *, yes: YesOption = False, output: OutputOption = "text") -> None:
    """Say, after asking, that a backup was put back, so that no cursor into what the database has lost is taken.

    Every feed gets a new epoch: all cursors from before are answered 410, instead of leading to other events than those
    that the consumer has seen, and each consumer decides where it begins again. Run it once, after the restore and
    before the hub starts again; never on a database that has lost nothing.
    """
    from penstock.cli.asking import confirm
    from penstock.cli.database import find_operator, open_database
    from penstock.cli.output import plural, print_json, say, tell
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock
    from penstock.hub.hub import Hub

    with open_database(database) as store:
        store.check(restoring=True)
        shown = store.url
        if not yes:
            with store.read() as tx:
                count = len(tx.registry.list())
            confirm(
                f"Was {shown} put back from a backup? {plural(count, 'feed')} will get a new epoch: the hub refuses"
                " the cursors of all consumers, and each consumer chooses where it begins again. Go on?",
                done="changed",
                does="goes on",
            )
        feeds = Hub(store).registry.raise_epochs(find_operator())
        has_tokens = bool(Tokens(store, system_clock).list())
        with store.read() as tx:
            has_files = bool(tx.cold.list(state="sealed", limit=1))
    if output == "json":
        print_json({"database": shown, "feeds": feeds})
    else:
        has = "has" if feeds == 1 else "have"
        say(f"{shown}: {plural(feeds, 'feed')} {has} a new epoch; consumers begin again where they choose to.")
    if has_tokens and output == "text":
        tell("Tokens and rights that were taken away after the backup hold again. With the same --database, look at")
        tell("  penstock token list")
        tell("  penstock access list")
    if has_files and output == "text":
        tell("Files of the cold tier may have been replaced or deleted after the backup. With the same --database, run")
        tell("  penstock cold verify --relink --cold URL")
        tell("To try a restore, use a copy of these files too: a hub deletes those that it does not need.")
