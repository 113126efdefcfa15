"""The sides that cases are run with: which peers each has, started when first wanted and kept for the next case."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pattern
from processes import Peer

SHAPE = {"layers": 4, "num-blocks": 4200, "kv-heads": 4, "head-dim": 32}
"""4 layers of 4,200 blocks of 8 KiB: room for 2,000 blocks with a gap behind each."""

START = 180.0
"""Seconds that a peer may take to start; vLLM's takes some ten."""

ABORT_TIMEOUT = 10
"""Of the prefillers. A vLLM decoder with 1 s gives up a silent prefiller after 61 s."""

HERE = Path(__file__).resolve().parent

VLLM_ENVIRONMENT = {"MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER": "65535"}
"""vLLM hands a pull's descriptors to the engine in one batch, which by default refuses more than some 2,000."""

ROLES = {"prefiller": "kv_producer", "decoder": "kv_consumer", "both": "kv_both"}


@dataclass(frozen=True)
class SideSpec:
    """What a side is made of."""

    implementation: str
    role: str
    tp: int = 1
    pp: int = 1
    seed: int = 0
    options: dict[str, object] = field(default_factory=dict, hash=False)


SPECS: dict[str, SideSpec] = {
    "java-p": SideSpec("Java", "prefiller", seed=1),
    "java-d": SideSpec("Java", "decoder"),
    "java-both": SideSpec("Java", "both", seed=3),
    "vllm-p": SideSpec("vLLM", "prefiller", seed=5),
    "vllm-d": SideSpec("vLLM", "decoder", options={"abort-timeout": 1}),
    "vllm-both": SideSpec("vLLM", "both", seed=7),
    "java-p-brief": SideSpec("Java", "prefiller", seed=1, options={"abort-timeout": 3}),
    "java-p-lease": SideSpec("Java", "prefiller", seed=1, options={"kv-lease-duration": 3}),
    "java-d-lease": SideSpec("Java", "decoder", options={"kv-lease-duration": 3}),
    "java-d-checks": SideSpec(
        "Java", "decoder", options={"integrity-check": "true", "fingerprint": "toy bf16"}
    ),
    "java-p-early": SideSpec("Java", "prefiller", seed=1, options={"send-while-prefill": "true"}),
    "java-p-names": SideSpec("Java", "prefiller", seed=1, options={"layer-prefix": "transformer.h.{}.attn"}),
    "java-d-names": SideSpec("Java", "decoder", options={"layer-prefix": "transformer.h.{}.attn"}),
    "java-p-wide": SideSpec("Java", "prefiller", seed=1, options={"head-dim": 64}),
    "java-d-wide": SideSpec("Java", "decoder", options={"head-dim": 64}),
    "java-p-tp2": SideSpec("Java", "prefiller", tp=2, seed=1),
    "java-d-tp2": SideSpec("Java", "decoder", tp=2),
    "java-p-tp4": SideSpec("Java", "prefiller", tp=4, seed=1),
    "java-d-tp4": SideSpec("Java", "decoder", tp=4),
    "java-p-tp8": SideSpec("Java", "prefiller", tp=8, seed=1),
    "java-d-tp8": SideSpec("Java", "decoder", tp=8),
    "java-p-pp2": SideSpec("Java", "prefiller", pp=2, seed=1),
    "java-d-pp2": SideSpec("Java", "decoder", pp=2),
    "vllm-p-tp2": SideSpec("vLLM", "prefiller", tp=2, seed=5),
    "vllm-d-tp2": SideSpec("vLLM", "decoder", tp=2),
    "vllm-p-pp2": SideSpec("vLLM", "prefiller", pp=2, seed=5),
    "vllm-d-pp2": SideSpec("vLLM", "decoder", pp=2),
    # The proxy takes turns among all engines that a bootstrap server knows: these have one to themselves.
    "java-p-proxied": SideSpec("Java", "prefiller", seed=1),
    "vllm-p-proxied": SideSpec("vLLM", "prefiller", seed=5),
    # Guests register at the bootstrap server of somebody else, which a case names.
    "java-p-guest": SideSpec("Java", "prefiller", seed=1, options={"dp-rank": 1}),
    "vllm-p-guest": SideSpec("vLLM", "prefiller", seed=5, options={"dp-rank": 1}),
}


@dataclass
class Side:
    """The running ranks of one engine."""

    name: str
    spec: SideSpec
    engine_id: str
    bootstrap: str
    ranks: list[Peer]

    @property
    def alive(self) -> bool:
        """Whether all ranks still run."""
        return all(rank.alive for rank in self.ranks)

    @property
    def is_vllm(self) -> bool:
        """Whether vLLM's connector is what runs here."""
        return self.spec.implementation == "vLLM"

    def part(self, rank: Peer) -> pattern.Part:
        """The part of the model's KV that a rank holds."""
        ready = rank.ready
        layers = pattern.layers_of_stage(SHAPE["layers"], *ready["pp"])
        return pattern.Part.of_rank(layers, ready["block_len"], SHAPE["kv-heads"], *ready["tp"])

    def refill(self) -> None:
        """Puts all blocks back to what they were at the start."""
        for rank in self.ranks:
            if self.spec.seed:
                rank.ask("filled", cmd="fill", seed=self.spec.seed)
            else:
                rank.ask("zeroed", cmd="zero")


class Fleet:
    """Starts sides and keeps them."""

    def __init__(self, logs: Path, java: list[str]) -> None:
        self._logs = logs
        self._java = java
        self._sides: dict[str, Side] = {}
        self._number = 0

    def sides(self, names: list[str]) -> list[Side]:
        """These sides, running; those that do not are started, all at once."""
        missing = []
        for name in dict.fromkeys(names):
            known = self._sides.get(name)
            if known is None or not known.alive:
                self.drop(name)
                missing.append(self._begin(name, None))
        for side in missing:
            self._complete(side)
        return [self._sides[name] for name in names]

    def guest(self, name: str, host: Side) -> Side:
        """A side that registers at another's bootstrap server, started anew."""
        self.drop(name)
        side = self._begin(name, host.bootstrap.removeprefix("http://"))
        self._complete(side)
        return side

    def drop(self, name: str) -> None:
        """Ends a side, if it runs."""
        side = self._sides.pop(name, None)
        if side is not None:
            for rank in side.ranks:
                rank.close()

    def log(self, name: str) -> Path:
        """Where a process beside the sides writes its log."""
        return self._logs / f"{name}.log"

    def close(self) -> None:
        """Ends all sides."""
        for side in self._sides.values():
            for rank in side.ranks:
                rank.kill()
        self._sides.clear()

    def _begin(self, name: str, elsewhere: str | None) -> Side:
        spec = SPECS[name]
        self._number += 1
        port = free_port()
        side = Side(name, spec, f"{name}-{self._number}", f"http://{elsewhere or f'127.0.0.1:{port}'}", [])
        self._sides[name] = side
        places = [(tp, pp) for pp in range(spec.pp) for tp in range(spec.tp)]
        # The other ranks of a prefiller register with its first one, which must be there.
        for tp, pp in places if spec.role == "decoder" else places[:1]:
            side.ranks.append(self._start(side, tp, pp, port, elsewhere))
        return side

    def _complete(self, side: Side) -> None:
        spec = side.spec
        for rank in side.ranks:
            rank.await_ready(START)
        places = [(tp, pp) for pp in range(spec.pp) for tp in range(spec.tp)][len(side.ranks) :]
        port = int(side.bootstrap.rpartition(":")[2])
        started = [self._start(side, tp, pp, port, None) for tp, pp in places]
        side.ranks += started
        for rank in started:
            rank.await_ready(START)

    def _start(self, side: Side, tp: int, pp: int, port: int, elsewhere: str | None) -> Peer:
        spec = side.spec
        options: dict[str, object] = {
            **SHAPE,
            "abort-timeout": ABORT_TIMEOUT,
            "seed": spec.seed,
            "bootstrap-port": port,
            "tp-size": spec.tp,
            "tp-rank": tp,
            "pp-size": spec.pp,
            "pp-rank": pp,
            **spec.options,
            "role": ROLES[spec.role],
            "engine-id": side.engine_id,
        }
        if elsewhere is not None:
            options["bootstrap-server-address"] = elsewhere
        vllm = spec.implementation == "vLLM"
        command = [sys.executable, str(HERE / "vllm_peer.py")] if vllm else list(self._java)
        for option, value in options.items():
            command += [f"--{option}", str(value)]
        label = side.engine_id + (f"-tp{tp}" if spec.tp > 1 else "") + (f"-pp{pp}" if spec.pp > 1 else "")
        return Peer(label, command, self._logs / f"{label}.log", VLLM_ENVIRONMENT if vllm else {})


def free_port() -> int:
    """A port of the loopback interface that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def java_command(home: str, class_path: str) -> list[str]:
    """Starts the Java peer."""
    return [
        os.path.join(home, "bin", "java"),
        "--enable-native-access=ALL-UNNAMED",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-cp",
        class_path,
        "dev.mooncake4j.it.PeerMain",
    ]
