from random import Random

from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.engine.call import Call
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.outcome import Failure
from penstock.processing.engine.rules import Rules
from penstock.processing.progress import Progress
from penstock.processing.sources.memory import MemorySource


def fail(engine: Engine, call: Call) -> None:
    engine.settle(call, Failure("ValueError", "it cannot be"), 0.0, 0.0)


def test_what_was_asked_for_before_it_was_tried_in_vain_is_done_with() -> None:
    source, checkpoints = MemorySource(), MemoryCheckpoints()
    source.append("S", [0])
    engine = Engine(Rules(attempts_max=1, exhausted="park"), Random(0), is_dense=True)
    progress = Progress(engine, source, checkpoints)
    progress.open(progress.survey())
    [batch] = source.read(progress.wants(), 0.0)
    engine.ingest(batch, 0.0)
    fail(engine, *engine.take(1, 0.0))
    progress.commit()
    checkpoints.ask("S", "retry")
    progress.commit()
    [replay] = progress.replays()
    engine.replay_all(replay.parked, progress.reread(replay), 0.0)
    [call] = engine.take(1, 0.0)

    advance = progress.advance()
    requests = progress.write(advance)  # As another thread does, while calls go on.
    assert requests == {("S", "0"): "retry"}
    fail(engine, call)
    progress.committed(advance, requests)
    progress.commit()

    assert not progress.retried, "nobody has asked for that again"
    assert progress.has_parked
