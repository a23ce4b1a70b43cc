"""Prints orders from a Penstock hub, which keeps the cursors: `python examples/consume_with_cursorset.py URL`.

For consumers that have no database. After a crash the last page comes again: what is done with an event must bear that.
"""

import signal
import sys

from penstock.client import Feed


def main(url: str) -> None:
    with Feed(url, merged=True) as feed, feed.follow(cursor_set="mailer", page_size_hint=100) as pages:
        for page in pages:
            for event in page.events:
                print(event.data["order_id"], flush=True)
            # The next request tells the hub that this page is done with.


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    main(*sys.argv[1:])
