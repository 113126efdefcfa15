"""The side channel and the bootstrap server: layouts, answers in parts, errors, fields that nobody knows."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from case import Run, case
from relay import Message, RawClient, Relay

FINISH, CONTINUE, ERROR, LAYOUT_MISS = range(4)

LAYOUTS_KEPT = 1024
"""As many decoders' layouts are kept by a prefiller, ours and vLLM's."""


def _relay(run: Run, **alter: Any) -> Relay:
    return Relay(run.p.bootstrap, run.p.engine_id, **alter)


def _has_layout(pull: Message) -> bool:
    return bool(pull["kv_caches_base_addr"])


@case("answers in parts (CONTINUE)", "java-p", "vllm-d", "3 x 16")
@case("answers in parts (CONTINUE)", "vllm-p", "java-d", "3 x 16")
def in_parts(run: Run) -> None:
    """Three requests of one pull: what is ready arrives, and the rest when it is."""
    ids = run.ids(96, True)
    parts = [(run.fresh(), ids[i : i + 16], ids[i + 48 : i + 64]) for i in (0, 16, 32)]
    late = parts[1][0]
    with _relay(run) as relay:
        for transfer, held, _ in parts:
            if transfer != late:
                run.prefill(transfer, held)
        run.pull(*(run.command(t, blocks, engine=relay.engine_id) for t, _, blocks in parts))
        for transfer, held, blocks in parts:
            if transfer != late:
                run.received(transfer)
                run.verify(held, blocks)
        run.announce(late, parts[1][1])
        run.end_prefill(late)
        run.received(late)
        run.verify(*parts[1][1:])
        for transfer, _, _ in parts:
            run.sent(transfer)
        statuses = [answer["status"] for answer in relay.answers]
        if len(relay.pulls) != 1 or set(statuses[:-1]) != {CONTINUE} or statuses[-1] != FINISH:
            raise AssertionError(f"{len(relay.pulls)} pulls, statuses {statuses}")


@case("layout sent once", "java-p", "vllm-d", "3 x 8")
@case("layout sent once", "vllm-p", "java-d", "3 x 8")
def layout_once(run: Run) -> None:
    """Once the prefiller has told that it has it, the layout is not sent again."""
    with _relay(run) as relay:
        for _ in range(3):
            run.transfer(8, True, engine=relay.engine_id)
        if [_has_layout(pull) for pull in relay.pulls] != [True, False, False]:
            raise AssertionError(f"pulls with a layout: {[_has_layout(p) for p in relay.pulls]}")


@case("layout forgotten (LAYOUT_MISS)", "java-p", "vllm-d", "2 x 8")
@case("layout forgotten (LAYOUT_MISS)", "vllm-p", "java-d", "2 x 8")
def layout_miss(run: Run) -> None:
    """The prefiller has forgotten the layout, and is sent it again within the same pull."""
    with _relay(run) as relay:
        run.transfer(8, True, engine=relay.engine_id)
        if run.p.is_vllm:
            run.p.ranks[0].ask("layouts_forgotten", cmd="forget_layouts")
        else:
            _crowd_out(run, relay.pulls[0])
        first = len(relay.pulls)
        run.transfer(8, True, engine=relay.engine_id)
        layouts = [_has_layout(pull) for pull in relay.pulls[first:]]
        statuses = [answer["status"] for answer in relay.answers[first:]]
        if layouts != [False, True] or statuses != [LAYOUT_MISS, FINISH]:
            raise AssertionError(f"pulls with a layout: {layouts}, statuses {statuses}")


def _crowd_out(run: Run, pull: Message) -> None:
    """As many other decoders come as the prefiller keeps layouts."""
    with RawClient(run.p.bootstrap, run.p.engine_id) as client:
        for i in range(LAYOUTS_KEPT):
            answer = client.ask({**pull, "req_blocks": {}, "remote_port": 20_000 + i})
            if answer["status"] != FINISH or answer.get("layout_id") != pull["layout_id"]:
                raise AssertionError(f"a pull of nothing was answered {answer}")


def _with_unknown_fields(message: Message) -> Message:
    return {"a_new_field": {"of": ["some", 1, None, 2.5]}, **message, "zz_last": True}


@case("unknown fields", "java-p", "vllm-d", 64)
@case("unknown fields", "vllm-p", "java-d", 64)
def unknown_fields(run: Run) -> None:
    """Pulls and answers have fields of a later version."""
    with _relay(run, pull=_with_unknown_fields, answer=_with_unknown_fields) as relay:
        run.transfer(64, True, engine=relay.engine_id)


@case("wrong TP rank", "java-p", "vllm-d", 8)
@case("wrong TP rank", "vllm-p", "java-d", 8)
def wrong_rank(run: Run) -> None:
    """A decoder rank asks a prefiller rank that it does not pair with: an error, at once."""
    transfer, blocks = run.fresh(), run.ids(8, False)
    run.prefill(transfer, blocks)
    with _relay(run, pull=lambda message: {**message, "remote_tp_rank": 3}) as relay:
        run.pull(run.command(transfer, blocks, engine=relay.engine_id))
        run.failed(transfer, 5)
        if [answer["status"] for answer in relay.answers] != [ERROR]:
            raise AssertionError(f"answers: {relay.answers}")
        run.note(f"told: {relay.answers[0].get('err_msg')}")
    run.untouched([])
    _fetch_after_all(run, transfer, blocks)


def _fetch_after_all(run: Run, transfer: str, blocks: list[int]) -> None:
    """The blocks are still there, for who asks rightly."""
    again = {**run.command(transfer, blocks), "req_id": f"d-{transfer}-again"}
    run.pull(again)
    for rank in run.d.ranks:
        if rank.wait("finished_recving", req_id=again["req_id"])["load_error"]:
            raise AssertionError("the second pull failed")
    run.sent(transfer)
    run.verify(blocks, blocks)


@case("other layer names", "java-p-names", "vllm-d", 8)
@case("other layer names", "vllm-p", "java-d-names", 8)
@case("other block length", "java-p-wide", "vllm-d", 8)
@case("other block length", "vllm-p", "java-d-wide", 8)
def mismatch(run: Run) -> None:
    """The two caches differ: an error, at once, and nothing is written."""
    transfer, blocks = run.fresh(), run.ids(8, False)
    run.prefill(transfer, blocks)
    with _relay(run) as relay:
        run.pull(run.command(transfer, blocks, engine=relay.engine_id))
        run.failed(transfer, 10)
        run.note(f"told: {relay.answers[-1].get('err_msg')}" if relay.answers else "told by the decoder itself")
    run.untouched([])
    run.let_go(transfer)


@case("messages that are none", "java-p", "vllm-d", 8)
def no_messages(run: Run) -> None:
    """Garbage, two frames, wrong types: the prefiller goes on."""
    for frames in ([b""], [b"\xc1\xff"], [b"", b"\x80"], [msgspec.msgpack.encode({"remote_port": "x"})]):
        with RawClient(run.p.bootstrap, run.p.engine_id) as client:
            client.send(*frames)
            run.note(f"{len(frames)} frames: status {client.answer()['status']}")
    run.transfer(8)


@case("ours at vLLM's bootstrap server", "java-p-guest", "vllm-d", 64, "vllm-p")
def ours_with_theirs(run: Run) -> None:
    """A Java prefiller registers with the server of a vLLM prefiller."""
    run.p = run.fleet.guest("java-p-guest", run.others[0])
    run.transfer(64, True)


@case("vLLM at our bootstrap server", "vllm-p-guest", "java-d", 64, "java-p")
def theirs_with_ours(run: Run) -> None:
    """A vLLM prefiller registers with the server of a Java prefiller."""
    run.p = run.fleet.guest("vllm-p-guest", run.others[0])
    run.transfer(64, True)


@case("renewals to a vLLM", "vllm-p", "java-d-lease", 64)
def renewals_refused(run: Run) -> None:
    """A vLLM prefiller knows no leases: one warning, and the transfer is as ever."""
    rank = run.d.ranks[0]
    transfer, source, target = run.fresh(), run.ids(64, True), run.ids(64, True)
    rank.ask("arrived", **{**run.command(transfer, target), "cmd": "arrive"})
    run.announce(transfer, source)
    time.sleep(2)  # four renewals
    run.end_prefill(transfer)
    run.pull(run.command(transfer, target))
    run.received(transfer)
    run.sent(transfer)
    run.verify(source, target)
    warnings = [line for line in rank.log_text().splitlines() if "WARN" in line and "lease" in line]
    if len(warnings) != 1:
        raise AssertionError(f"{len(warnings)} warnings of leases: {warnings}")
    run.note(warnings[0].partition("WARN ")[2][:200])


@case("checks of ours", "vllm-p", "java-d-checks", 64)
def checks_of_ours(run: Run) -> None:
    """A vLLM prefiller ignores our fingerprint, and gives no digest: one warning; it is looked at while it is waited for."""
    transfer, source, target = run.fresh(), run.ids(64, True), run.ids(64, True)
    run.pull(run.command(transfer, target))
    run.announce(transfer, source)
    time.sleep(7)  # two looks
    run.end_prefill(transfer)
    run.received(transfer)
    run.sent(transfer)
    run.verify(source, target)
    run.transfer(8)
    log = run.d.ranks[0].log_text()
    warnings = [line for line in log.splitlines() if "WARN" in line and "digest" in line]
    if len(warnings) != 1:
        raise AssertionError(f"{len(warnings)} warnings of digests: {warnings}")
    run.note(warnings[0].partition("WARN ")[2][:200])


@case("a lease without renewals", "java-p-lease", "vllm-d", 64)
def lease_without_renewals(run: Run) -> None:
    """A vLLM decoder does not renew: it is served within the lease of 3 s, and told at once after it."""
    run.transfer(64, True)
    transfer, blocks = run.fresh(), run.ids(8, False)
    run.prefill(transfer, blocks)
    began = time.monotonic()
    if run.sent(transfer, 10) != "EXPIRED":
        raise AssertionError("the blocks did not expire")
    run.note(f"expired after {time.monotonic() - began:.1f} s")
    run.pull(run.command(transfer, blocks))
    run.failed(transfer, 3)
