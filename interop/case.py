"""What a case is, and the words that cases are written in."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fleet import SHAPE, SPECS, Fleet, Side
from processes import SOON, Peer, PeerError

BLOCKS = SHAPE["num-blocks"]
BLOCK_TOKENS = 16
IDLE = 20.0
"""Seconds within which a Java peer must have forgotten all requests of a case."""

IDLE_FIGURES = ("pulls", "sends", "waiting_pulls", "leases", "quarantined_blocks", "queued_transfers", "live_batches")

Ids = list[int]
Pull = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One case: a prefiller, a decoder, and what is done with them."""

    name: str
    prefiller: str
    decoder: str
    blocks: str
    run: Callable[[Run], None]
    others: tuple[str, ...] = ()
    order: int = 0

    @property
    def sides(self) -> list[str]:
        """All that must run."""
        return [s for s in (self.prefiller, self.decoder, *self.others) if not s.endswith("-guest")]

    @property
    def direction(self) -> str:
        """Who sends to whom."""
        p, d = SPECS[self.prefiller], SPECS[self.decoder]
        names = [f"{s.implementation} {'both' if s.role == 'both' else end}" for s, end in ((p, "P"), (d, "D"))]
        return " -> ".join(names)

    @property
    def ranks(self) -> str:
        """Ranks of the one and the other."""
        p, d = SPECS[self.prefiller], SPECS[self.decoder]
        if p.pp > 1 or d.pp > 1:
            return f"PP {p.pp}->{d.pp}"
        return f"TP {p.tp}->{d.tp}"


CASES: list[Case] = []
_ORDER = itertools.count()


def case(
    name: str, prefiller: str, decoder: str, blocks: object, *others: str
) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Enters a function into the list of cases; may be used several times on one."""
    order = next(_ORDER)  # that of the source: decorators are applied from the last to the first

    def enter(run: Callable[[Run], None]) -> Callable[[Run], None]:
        CASES.append(Case(name, prefiller, decoder, str(blocks), run, others, order))
        CASES.sort(key=lambda c: c.order)
        return run

    return enter


@dataclass
class Run:
    """One run of a case."""

    case: Case
    fleet: Fleet
    p: Side
    d: Side
    others: list[Side] = field(default_factory=list)
    verified: int = 0
    """Bytes whose checksum was compared."""
    notes: list[str] = field(default_factory=list)
    _requests: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.case.name)

    def fresh(self) -> str:
        """A transfer id that no other transfer has."""
        self._requests += 1
        return f"{self.case.name.replace(' ', '-')}-{self._requests}-{time.monotonic_ns():x}"

    def note(self, text: str) -> None:
        """Something to be told beside the result."""
        self.notes.append(text)

    def ids(self, n: int, scattered: bool, among: range = range(BLOCKS)) -> Ids:
        """Ids of n blocks: next to each other, or in any order and none next to another."""
        if scattered:
            return self.random.sample(among[:: 2], n)
        first = self.random.randrange(len(among) - n + 1)
        return list(among[first : first + n])

    # --- the prefiller ---

    def prefill(self, transfer: str, blocks: Ids, side: Side | None = None) -> None:
        """The prefill is done: its blocks can be fetched."""
        side = side or self.p
        for rank in side.ranks:
            rank.send(req_id=f"p-{transfer}", transfer_id=transfer, block_ids=blocks)
        for rank in side.ranks:
            if not rank.wait("accepted", req_id=f"p-{transfer}")["delay_free"]:
                raise PeerError(f"{rank.name} does not keep the blocks of {transfer}")

    def announce(self, transfer: str, blocks: Ids) -> None:
        """The prefill has begun."""
        for rank in self.p.ranks:
            rank.send(cmd="alloc", req_id=f"p-{transfer}", transfer_id=transfer, block_ids=blocks)
        for rank in self.p.ranks:
            rank.wait("allocated", req_id=f"p-{transfer}")

    def end_prefill(self, transfer: str, how: str = "finish", **more: str) -> None:
        """The prefill that has begun ends."""
        for rank in self.p.ranks:
            rank.send(cmd=how, req_id=f"p-{transfer}", **more)
        for rank in self.p.ranks:
            rank.wait({"finish": "finished", "abort": "aborted"}[how], req_id=f"p-{transfer}")

    def progress(self, transfer: str, blocks: int) -> None:
        """So many blocks of a prefill that has begun are computed: they are filled, and no others."""
        tokens = blocks * BLOCK_TOKENS
        for rank in self.p.ranks:
            rank.send(cmd="progress", req_id=f"p-{transfer}", finished_tokens=tokens, fill=self.p.spec.seed)
        for rank in self.p.ranks:
            rank.wait("progressed", req_id=f"p-{transfer}")

    def arrived(self, blocks: Ids) -> None:
        """Waits until the decoder's blocks hold something, all of them."""
        until = time.monotonic() + SOON
        for rank in self.d.ranks:
            while rank.ask("nonzero", cmd="nonzero", block_ids=blocks)["n"] < len(blocks) * len(self.d.part(rank).layers):
                if time.monotonic() > until:
                    raise PeerError(f"{rank.name}: {len(blocks)} blocks did not arrive while the prefill went on")
                time.sleep(0.02)

    def sent(self, transfer: str, timeout: float = SOON, side: Side | None = None) -> str:
        """Waits until the prefiller may free the blocks; returns why, where it says so."""
        ends = [r.wait("finished_sending", timeout, req_id=f"p-{transfer}") for r in (side or self.p).ranks]
        return str(ends[0].get("end"))

    def kept(self, transfer: str, seconds: float = 0.5) -> None:
        """Checks that the prefiller keeps the blocks for now."""
        time.sleep(seconds)
        for rank in self.p.ranks:
            if rank.has("finished_sending", req_id=f"p-{transfer}"):
                raise PeerError(f"{rank.name} let the blocks of {transfer} go")

    # --- the decoder ---

    def command(
        self, transfer: str, blocks: Ids, cached: int = 0, engine: str | None = None, side: Side | None = None
    ) -> Pull:
        """A request as the decoder gets it; the engine is the prefiller's if no other is named."""
        side = side or self.p
        return {
            "req_id": f"d-{transfer}",
            "transfer_id": transfer,
            "remote_engine_id": engine or side.engine_id,
            "remote_bootstrap_addr": side.bootstrap,
            "block_ids": blocks,
            "cached_blocks": cached,
        }

    def pull(self, *commands: Pull, side: Side | None = None) -> None:
        """Has the decoder fetch these in one scheduler step; returns when it has asked."""
        ranks = (side or self.d).ranks
        for rank in ranks:
            rank.send(cmd="pull_batch", reqs=list(commands))
        for rank in ranks:
            rank.wait("pulling")

    def received(self, transfer: str, side: Side | None = None, timeout: float = SOON) -> None:
        """Waits until the decoder has everything."""
        self._ended(transfer, False, timeout, side)

    def failed(self, transfer: str, timeout: float = SOON) -> float:
        """Waits until the decoder is told that it failed; returns after how many seconds."""
        return self._ended(transfer, True, timeout, None)

    def _ended(self, transfer: str, error: bool, timeout: float, side: Side | None) -> float:
        began = time.monotonic()
        for rank in (side or self.d).ranks:
            event = rank.wait("finished_recving", timeout, req_id=f"d-{transfer}")
            if event["load_error"] != error:
                why = rank.wait("failed", 1, req_id=f"d-{transfer}") if rank.has("failed") else "no reason told"
                raise PeerError(f"{rank.name}: load_error={event['load_error']} of {transfer}: {why}")
        return time.monotonic() - began

    # --- both ---

    def verify(self, source: Ids, target: Ids, p: Side | None = None, d: Side | None = None) -> None:
        """Checks what arrived against the formula, on every rank of the decoder."""
        p, d = p or self.p, d or self.d
        for rank in d.ranks:
            expected = d.part(rank).sha256(p.spec.seed, source)
            got = rank.ask("checksum", cmd="checksum", block_ids=target)["sha256"]
            if got != expected:
                raise PeerError(f"{rank.name}: {len(target)} blocks do not hold what was sent")
            self.verified += len(target) * d.part(rank).block_bytes

    def untouched(self, written: Ids, side: Side | None = None) -> None:
        """Checks that all other blocks of the decoder are as they were."""
        side = side or self.d
        used = set(written)
        others = [i for i in range(BLOCKS) if i not in used]
        for rank in side.ranks:
            if side.spec.seed:
                got = rank.ask("checksum", cmd="checksum", block_ids=others)["sha256"]
                clean = got == side.part(rank).sha256(side.spec.seed, others)
            else:
                clean = rank.ask("nonzero", cmd="nonzero", block_ids=others)["n"] == 0
            if not clean:
                raise PeerError(f"{rank.name}: blocks were written that nobody had asked for")

    def transfer(self, n: int, scattered: bool = False, engine: str | None = None) -> str:
        """A whole transfer, prefiller first, with all checks; returns its id."""
        transfer, source, target = self.fresh(), self.ids(n, scattered), self.ids(n, scattered)
        self.prefill(transfer, source)
        self.pull(self.command(transfer, target, engine=engine))
        self.received(transfer)
        self.sent(transfer)
        self.verify(source, target)
        return transfer

    def let_go(self, transfer: str) -> None:
        """Has a Java prefiller let a transfer go; a vLLM does so at its abort timeout."""
        for rank in self.p.ranks:
            if not self.p.is_vllm:
                rank.send(cmd="let_go", transfer_id=transfer)

    def idle(self) -> None:
        """Checks that nothing is left of any request in the Java peers."""
        for side in (self.p, self.d, *self.others):
            if not side.is_vllm:
                for rank in side.ranks:
                    if rank.alive:
                        _await_idle(rank)


def _await_idle(rank: Peer) -> None:
    until = time.monotonic() + IDLE
    while True:
        state = rank.ask("state", cmd="state")
        left = {k: state[k] for k in (*IDLE_FIGURES, "outstanding") if state[k]}
        if not left and state["healthy"]:
            return
        if time.monotonic() > until:
            raise PeerError(f"{rank.name} still has {left}, healthy={state['healthy']}")
        time.sleep(0.05)
