"""What goes wrong: prefills that never end, and peers that die. These come last, for they end the peers."""

from __future__ import annotations

import time

from case import Run, case
from fleet import ABORT_TIMEOUT
from processes import PeerError

BRIEF = 3
"""Abort timeout of the Java prefiller that has its own."""

SILENCE = 61
"""Seconds after which a vLLM decoder with an abort timeout of 1 s gives up a prefiller that says nothing."""

UNDER_WAY = 0.1
"""Seconds after the question at which a peer is killed."""


@case("ended by a stop token", "java-p", "vllm-d", 8)
def stop_token(run: Run) -> None:
    """A prefill that ends by a stop token has KV to send; vLLM's prefiller drops it."""
    transfer, source, target = run.fresh(), run.ids(8, True), run.ids(8, True)
    run.pull(run.command(transfer, target))
    run.announce(transfer, source)
    run.end_prefill(transfer, reason="STOP")
    run.received(transfer)
    run.sent(transfer)
    run.verify(source, target)


@case("prefill aborted", "java-p", "vllm-d", 8)
@case("prefill aborted", "vllm-p", "java-d", 8)
def aborted(run: Run) -> None:
    """The decoder waits, and is told: by ours at once, by vLLM at its abort timeout."""
    transfer, blocks = run.fresh(), run.ids(8, False)
    run.pull(run.command(transfer, blocks))
    run.announce(transfer, blocks)
    run.end_prefill(transfer, "abort")
    after = run.failed(transfer, ABORT_TIMEOUT + 5 if run.p.is_vllm else 2)
    run.note(f"told after {after:.1f} s")
    run.untouched([])


@case("abort timeout", "java-p-brief", "vllm-d", 8)
@case("abort timeout", "vllm-p", "java-d", 8)
def abort_timeout(run: Run) -> None:
    """Blocks that nobody fetches are let go, and a pull whose prefill never comes ends."""
    limit = ABORT_TIMEOUT if run.p.is_vllm else BRIEF
    unfetched, unknown = run.fresh(), run.fresh()
    blocks = run.ids(8, False)
    began = time.monotonic()
    run.prefill(unfetched, blocks)
    run.pull(run.command(unknown, blocks))
    run.failed(unknown, limit + 10)
    told = time.monotonic() - began
    end = run.sent(unfetched, limit + 10)
    freed = time.monotonic() - began
    if min(told, freed) < limit - 0.5:
        raise AssertionError(f"timeout of {limit} s, told after {told:.1f} s, freed after {freed:.1f} s")
    if not run.p.is_vllm and end != "EXPIRED":
        raise AssertionError(f"the blocks ended as {end}")
    run.note(f"timeout {limit} s: decoder told after {told:.1f} s, blocks free after {freed:.1f} s")
    run.untouched([])
    run.transfer(8)


def _acquaint(run: Run) -> None:
    """A first transfer, so that the next one is under way at once: layouts are known, connections are open."""
    run.transfer(8)
    run.d.refill()


def _arrived(run: Run, target: list[int]) -> str:
    n = sum(rank.ask("nonzero", cmd="nonzero", block_ids=target)["n"] for rank in run.d.ranks)
    return f"{n} of {len(target) * 4} parts had been written"


@case("decoder killed in the middle", "java-p", "vllm-d", 2000, "java-d")
@case("decoder killed in the middle", "vllm-p", "java-d", 2000)
def decoder_killed(run: Run) -> None:
    """The prefiller lets the blocks go, and serves others."""
    _acquaint(run)
    transfer, blocks = run.fresh(), run.ids(2000, True)
    run.prefill(transfer, blocks)
    run.pull(run.command(transfer, blocks))
    time.sleep(UNDER_WAY)
    run.d.ranks[0].kill()
    began = time.monotonic()
    end = run.sent(transfer, ABORT_TIMEOUT + 20)
    run.note(f"blocks free after {time.monotonic() - began:.1f} s, end {end}")
    # A Java decoder in both directions: it starts in a second.
    (run.d,) = run.fleet.sides(["java-d"])
    run.d.refill()
    run.transfer(64, True)


@case("prefiller killed while it is waited for", "vllm-p", "java-d", 8, "java-p")
@case("prefiller killed in the middle", "vllm-p", "java-d", 2000, "java-p")
def vllm_prefiller_killed(run: Run) -> None:
    """A Java decoder knows within seconds, and goes on with another prefiller."""
    transfer, target = run.fresh(), run.ids(8 if run.case.blocks == "8" else 2000, True)
    if len(target) > 8:
        _acquaint(run)
        run.prefill(transfer, target)
    run.pull(run.command(transfer, target))
    time.sleep(UNDER_WAY)
    run.p.ranks[0].kill()
    after = run.failed(transfer, 30)
    run.note(f"told after {after:.1f} s; {_arrived(run, target)}")
    run.p = run.others[0]
    run.d.refill()
    run.transfer(64, True)


@case("prefiller killed in the middle", "java-p", "vllm-d", 2000, "java-both")
def java_prefiller_killed(run: Run) -> None:
    """A vLLM decoder waits out its own limit; meanwhile others serve it, and so does the next one in that place."""
    _acquaint(run)
    transfer, target = run.fresh(), run.ids(2000, True)
    run.prefill(transfer, target)
    run.pull(run.command(transfer, target))
    time.sleep(UNDER_WAY)
    killed = run.p
    killed.ranks[0].kill()
    began = time.monotonic()
    run.p = run.others[0]
    run.transfer(64, False)
    (run.p,) = run.fleet.sides(["java-p"])
    run.transfer(64, False)
    event = run.d.ranks[0].wait("finished_recving", SILENCE + 10, req_id=f"d-{transfer}")
    run.note(f"told after {time.monotonic() - began:.1f} s, {event['bad_blocks']} bad blocks")
    if not event["load_error"]:
        raise PeerError("the transfer was complete before the prefiller was killed")
