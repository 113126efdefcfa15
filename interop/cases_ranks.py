"""Several ranks on a side, each a process of its own."""

from __future__ import annotations

from case import Run, case


@case("tensor parallel", "java-p-tp2", "vllm-d", 64)
@case("tensor parallel", "vllm-p-tp2", "java-d", 64)
@case("tensor parallel", "java-p", "vllm-d-tp2", 64)
@case("tensor parallel", "vllm-p", "java-d-tp2", 64)
@case("tensor parallel", "java-p-tp2", "vllm-d-tp2", 64)
@case("tensor parallel", "vllm-p-tp2", "java-d-tp2", 64)
@case("tensor parallel", "java-p-tp4", "vllm-d-tp2", 64)
@case("tensor parallel", "vllm-p-tp2", "java-d-tp4", 64)
@case("KV heads on two ranks each", "java-p-tp8", "vllm-d", 64)
@case("KV heads on two ranks each", "vllm-p", "java-d-tp8", 64)
@case("KV heads on two ranks each", "java-p-tp8", "vllm-d-tp2", 64)
@case("KV heads on two ranks each", "vllm-p-tp2", "java-d-tp8", 64)
@case("pipeline stages", "java-p-pp2", "vllm-d", 64)
@case("pipeline stages", "vllm-p-pp2", "java-d", 64)
@case("pipeline stages", "java-p", "vllm-d-pp2", 64)
@case("pipeline stages", "vllm-p", "java-d-pp2", 64)
def ranks(run: Run) -> None:
    """Every rank gets its share, also a decoder that comes first; the blocks are free when all have it."""
    for scattered in (False, True):
        transfer, source, target = run.fresh(), run.ids(64, scattered), run.ids(64, scattered)
        run.prefill(transfer, source)
        run.pull(run.command(transfer, target))
        run.received(transfer)
        run.sent(transfer)
        run.verify(source, target)
    transfer, source, target = run.fresh(), run.ids(8, True), run.ids(8, True)
    run.pull(run.command(transfer, target))
    run.announce(transfer, source)
    run.end_prefill(transfer)
    run.received(transfer)
    run.sent(transfer)
    run.verify(source, target)


@case("blocks kept for all ranks", "java-p", "vllm-d-tp2", 16)
@case("blocks kept for all ranks", "vllm-p", "java-d-tp2", 16)
def kept_for_all(run: Run) -> None:
    """One of two decoder ranks has its share: the blocks are kept until the other has."""
    transfer, source, target = run.fresh(), run.ids(16, False), run.ids(16, False)
    run.prefill(transfer, source)
    first, second = run.d.ranks
    command = run.command(transfer, target)
    for rank in (first, second):
        rank.send(cmd="pull_batch", reqs=[command])
        if rank.wait("finished_recving", req_id=command["req_id"])["load_error"]:
            raise AssertionError(f"{rank.name} has failed")
        if rank is first:
            run.kept(transfer)
    run.sent(transfer)
    run.verify(source, target)
