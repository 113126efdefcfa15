"""Blocks from one rank to one rank: how many, how they lie, in which order the two sides come."""

from __future__ import annotations

from case import Run, case

PAIRS = (("java-p", "vllm-d"), ("vllm-p", "java-d"))


def _enter_sizes() -> None:
    for p, d in PAIRS:
        for n in (1, 64, 2000):
            for scattered in (False, True) if n > 1 else (False,):

                def run(run: Run, n: int = n, scattered: bool = scattered) -> None:
                    transfer, source, target = run.fresh(), run.ids(n, scattered), run.ids(n, scattered)
                    run.prefill(transfer, source)
                    run.pull(run.command(transfer, target))
                    run.received(transfer)
                    run.sent(transfer)
                    run.verify(source, target)
                    run.untouched(target)

                case("scattered blocks" if scattered else "contiguous blocks", p, d, n)(run)


_enter_sizes()


@case("decoder first", "java-p", "vllm-d", 64)
@case("decoder first", "vllm-p", "java-d", 64)
def decoder_first(run: Run) -> None:
    """The decoder asks before the prefiller has heard of the request."""
    transfer, source, target = run.fresh(), run.ids(64, True), run.ids(64, True)
    run.pull(run.command(transfer, target))
    run.announce(transfer, source)
    run.untouched([])
    run.end_prefill(transfer)
    run.received(transfer)
    run.sent(transfer)
    run.verify(source, target)
    run.untouched(target)


@case("sent while the prefill goes on", "java-p-early", "vllm-d", 64)
@case("sent while the prefill goes on", "java-p-early", "java-d", 64)
def while_prefilling(run: Run) -> None:
    """Each block is filled when it is told as finished: one written before that arrives wrong."""
    transfer, source, target = run.fresh(), run.ids(64, True), run.ids(64, True)
    run.p.ranks[0].ask("zeroed", cmd="zero")
    run.pull(run.command(transfer, target))
    run.announce(transfer, source)
    for finished in range(8, 64, 8):
        run.progress(transfer, finished)
        run.arrived(target[:finished])
    run.untouched(target[:56])
    run.progress(transfer, 64)
    run.end_prefill(transfer)
    run.received(transfer)
    run.sent(transfer)
    run.verify(source, target)
    run.untouched(target)


@case("prefix cached, sent while the prefill goes on", "java-p-early", "vllm-d", "12 of 40")
def prefix_while_prefilling(run: Run) -> None:
    """The decoder asks for the last 12 of 40 blocks and comes when some of them are finished."""
    transfer, source, target = run.fresh(), run.ids(40, True), run.ids(12, True)
    run.p.ranks[0].ask("zeroed", cmd="zero")
    run.announce(transfer, source)
    run.progress(transfer, 34)
    run.pull(run.command(transfer, target, cached=28))
    run.arrived(target[:6])
    run.untouched(target[:6])
    run.progress(transfer, 40)
    run.end_prefill(transfer)
    run.received(transfer)
    run.sent(transfer)
    run.verify(source[-12:], target)
    run.untouched(target)


@case("aborted while it is sent", "java-p-early", "vllm-d", 64)
def aborted_while_sent(run: Run) -> None:
    """The decoder is told at once, and the prefiller may free the blocks when nothing reads them."""
    transfer, source, target = run.fresh(), run.ids(64, True), run.ids(64, True)
    run.pull(run.command(transfer, target))
    run.announce(transfer, source)
    run.progress(transfer, 32)
    run.arrived(target[:32])
    run.end_prefill(transfer, "abort")
    if run.failed(transfer) > 5:
        raise AssertionError("the decoder was told late")
    if run.sent(transfer) != "RELEASED":
        raise AssertionError("the blocks were not let go")
    run.untouched(target[:32])


@case("prefix cached in part", "java-p", "vllm-d", "12 of 40")
@case("prefix cached in part", "vllm-p", "java-d", "12 of 40")
def prefix_hit(run: Run) -> None:
    """The decoder has 28 of 40 blocks and asks for the last 12."""
    transfer, source, target = run.fresh(), run.ids(40, True), run.ids(12, True)
    run.prefill(transfer, source)
    run.pull(run.command(transfer, target, cached=28))
    run.received(transfer)
    run.sent(transfer)
    run.verify(source[-12:], target)
    run.untouched(target)


@case("all cached", "java-p", "vllm-d", "0 of 16")
@case("all cached", "vllm-p", "java-d", "0 of 16")
def all_cached(run: Run) -> None:
    """The decoder has everything: the pull only lets the prefiller's blocks go."""
    transfer = run.fresh()
    run.prefill(transfer, run.ids(16, False))
    run.pull(run.command(transfer, [], cached=16))
    run.sent(transfer)
    run.untouched([])


@case("released before scheduled", "java-p", "vllm-d", "0 of 16")
@case("released before scheduled", "vllm-p", "java-d", "0 of 16")
def released(run: Run) -> None:
    """The decoder's request ended in its queue."""
    transfer = run.fresh()
    run.prefill(transfer, run.ids(16, False))
    run.d.ranks[0].ask("released", **{**run.command(transfer, []), "cmd": "release"})
    run.sent(transfer)
    run.untouched([])


@case("more blocks than held", "java-p", "vllm-d", "10 of 6")
@case("more blocks than held", "vllm-p", "java-d", "10 of 6")
def more_than_held(run: Run) -> None:
    """Nothing is written, and the blocks are kept for a better question."""
    transfer, source, target = run.fresh(), run.ids(6, False), run.ids(10, False)
    run.prefill(transfer, source)
    run.pull(run.command(transfer, target))
    run.failed(transfer)
    run.untouched([])
    run.kept(transfer)
    run.pull({**run.command(transfer, target[:6]), "req_id": f"d-{transfer}-again"})
    for rank in run.d.ranks:
        if rank.wait("finished_recving", req_id=f"d-{transfer}-again")["load_error"]:
            raise AssertionError("the second pull failed")
    run.sent(transfer)
    run.verify(source, target[:6])


@case("several in one pull", "java-p", "vllm-d", "4 x 32")
@case("several in one pull", "vllm-p", "java-d", "4 x 32")
def several(run: Run) -> None:
    """Four requests of one step, all ready."""
    source, target = run.ids(128, True), run.ids(128, True)
    parts = [(run.fresh(), source[i : i + 32], target[i : i + 32]) for i in range(0, 128, 32)]
    for transfer, blocks, _ in parts:
        run.prefill(transfer, blocks)
    run.pull(*(run.command(transfer, blocks) for transfer, _, blocks in parts))
    for transfer, held, blocks in parts:
        run.received(transfer)
        run.sent(transfer)
        run.verify(held, blocks)
    run.untouched(target)


@case("kv_both", "java-both", "vllm-d", 64)
@case("kv_both", "vllm-p", "java-both", 64)
@case("kv_both", "java-both", "vllm-both", 64)
@case("kv_both", "vllm-both", "java-both", 64)
def both(run: Run) -> None:
    """A side with both roles, in each of them."""
    transfer, source, target = run.fresh(), run.ids(64, True), run.ids(64, True)
    run.prefill(transfer, source)
    run.pull(run.command(transfer, target))
    run.received(transfer)
    run.sent(transfer)
    run.verify(source, target)
    run.untouched(target)


@case("kv_both, both ways at once", "java-both", "vllm-both", "2 x 500")
def both_ways(run: Run) -> None:
    """Each fetches from the other at the same time."""
    there, back = run.fresh(), run.fresh()
    lower, upper = range(BOUNDARY), range(BOUNDARY, 2 * BOUNDARY)
    source, target = run.ids(500, True, lower), run.ids(500, True, upper)
    run.prefill(there, source)
    run.prefill(back, source, side=run.d)
    run.pull(run.command(there, target))
    run.pull(run.command(back, target, side=run.d), side=run.p)
    run.received(there)
    run.received(back, side=run.p)
    run.sent(there)
    run.sent(back, side=run.d)
    run.verify(source, target)
    run.verify(source, target, p=run.d, d=run.p)
    run.untouched(target)
    run.untouched(target, side=run.p)


BOUNDARY = 2000
