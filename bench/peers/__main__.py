"""Measures the peers: `python -m bench.peers [PEER…] [--workloads NAME…] [--rounds N] [--quick]`, or lists them."""

import argparse
import signal
import sys
import traceback
from collections.abc import Sequence

from bench.__main__ import allow_open_files, leave
from bench.peers.peers import PEER_LIST, PEERS_BY_NAME, Peer
from bench.peers.results import MeasuredPeer, keep, show_values, write_choosing
from bench.peers.workloads import WORKLOADS, PeerScale, Values
from bench.place import place
from bench.results import write_pages

Taken = dict[str, dict[str, list[Values]]]
"""The values of each peer by workload, round by round."""


def main() -> int:
    """Measure the peers by turns; 1 if one of them could not be measured."""
    asked = _arguments()
    if asked.list:
        for peer in PEER_LIST:
            print(f"{peer.name:18} {peer.says}")
        for workload in WORKLOADS.values():
            print(f"{workload.name:18} {workload.says}")
        return 0
    allow_open_files()
    signal.signal(signal.SIGTERM, leave)  # So that servers are stopped then too.
    peers = [PEERS_BY_NAME[name] for name in asked.peers] or list(PEER_LIST)
    scale = PeerScale(asked.quick)
    taken: Taken = {peer.name: {} for peer in peers}
    rounds = asked.rounds or scale.rounds
    failed = _measure(peers, asked.workloads or list(WORKLOADS), scale, rounds, taken)
    measured = [_describe(peer, taken[peer.name]) for peer in peers if peer.name not in failed]
    if not asked.quick and not asked.peers and not asked.workloads and rounds >= scale.rounds:
        keep(measured, [PEERS_BY_NAME[name].says for name in failed], rounds, scale.events)
        write_pages()
        write_choosing()
    if failed:
        print(f"could not be measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description="Measure Penstock beside its peers, and write it into docs/."
    )
    parser.add_argument("peers", nargs="*", metavar="PEER", choices=[[], *PEERS_BY_NAME], help="by default all")
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), help="by default all", default=[])
    parser.add_argument("--list", action="store_true", help="list peers and workloads")
    parser.add_argument("--rounds", type=int, help="turns of each peer; by default 3, and fewer are not written down")
    parser.add_argument("--quick", action="store_true", help="see that they run: one short round")
    return parser.parse_args()


def _measure(peers: Sequence[Peer], workloads: Sequence[str], scale: PeerScale, rounds: int, taken: Taken) -> list[str]:
    """Give each peer its turn in each round, with no other server running; return the names of those that failed."""
    failed: list[str] = []
    for number in range(1, rounds + 1):
        for peer in peers:
            if peer.name not in failed and not _take_turn(peer, workloads, scale, number, taken[peer.name]):
                failed.append(peer.name)
    return failed


def _take_turn(
    peer: Peer, workloads: Sequence[str], scale: PeerScale, number: int, taken: dict[str, list[Values]]
) -> bool:
    print(f"round {number}: {peer.says}", flush=True)
    wanted = [name for name in WORKLOADS if name in peer.workloads and name in workloads]
    try:
        with place() as lent:
            try:
                with peer.open(lent, scale) as loads:
                    for name in wanted:
                        values = WORKLOADS[name].measure(loads, scale)
                        taken.setdefault(name, []).append(values)
                        print(f"  {WORKLOADS[name].says}: {show_values(name, values)}", flush=True)
            except Exception:
                traceback.print_exc()
                for log in sorted(lent.directory.glob("*log")):
                    if log.is_file():
                        print(
                            f"{log.name}: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}", file=sys.stderr
                        )
                raise
    except Exception:  # noqa: BLE001  (the other peers are wanted all the same)
        return False
    return True


def _describe(peer: Peer, taken: dict[str, list[Values]]) -> MeasuredPeer:
    version = peer.find_version()
    return MeasuredPeer(peer.name, peer.says, peer.role, peer.is_durable, peer.flush, peer.client, version, taken)


if __name__ == "__main__":
    sys.exit(main())
