"""`penstock event-type guidelines`: lists what event types are held against."""

from penstock.cli.options import OutputOption


def guidelines(output: OutputOption = "text") -> None:
    """List the event guidelines: those that `check` checks, and those that are for people to judge."""
    from penstock.cli.output import print_json, print_table
    from penstock.schema.guidelines import GUIDELINES

    if output == "json":
        print_json(
            [
                {
                    "id": rule.id,
                    "level": rule.level,
                    "asks": rule.asks,
                    "advice": rule.advice,
                    "checked": rule.is_checked,
                }
                for rule in GUIDELINES.values()
            ]
        )
        return
    judge = {True: "check", False: "people"}
    rows = [[rule.id, rule.level, judge[rule.is_checked], rule.asks, rule.advice] for rule in GUIDELINES.values()]
    print_table(("guideline", "level", "judged by", "what it asks", "what to do"), rows)
