"""How long vLLM takes to turn the block ids of one request into copies, for the shapes of dev.mooncake4j.bench.

Standard input, JSON lines: {"cmd": "plan", "layers", "source": [ids], "destination": [ids]} and {"cmd": "quit"}.
Standard output, JSON lines: "ready" and, for each plan, "planned" with "seconds" and "descriptors".
The function is the one that vLLM's prefiller runs on its event loop, on a worker that has only what it reads.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from types import SimpleNamespace
from typing import Any

_EVENTS = os.dup(1)
os.dup2(2, 1)
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")

from vllm.distributed.kv_transfer.kv_connector.utils import TransferTopology  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.mooncake import mooncake_connector as module  # noqa: E402

BLOCK_LEN = 32768
LOCAL, REMOTE = 1 << 40, 1 << 44
LAYER_BYTES = 1 << 34


def emit(event: str, **fields: Any) -> None:
    """Writes one event."""
    os.write(_EVENTS, (json.dumps({"event": event, **fields}) + "\n").encode())


def worker() -> Any:
    """A worker of which only what planning reads is there."""
    w = object.__new__(module.MooncakeConnectorWorker)
    w.shutdown = lambda: None
    w.kv_cache_config = SimpleNamespace(
        transfer_groups=[SimpleNamespace(kv_cache_spec=SimpleNamespace())], has_mamba_layers=False
    )
    w.tp_rank, w.tp_size, w.use_mla, w._physical_blocks_per_logical_kv_block = 0, 1, False, 1
    w.transfer_topo = TransferTopology(
        tp_rank=0,
        tp_size=1,
        block_size=16,
        engine_id="e",
        is_mla=False,
        is_mamba=False,
        total_num_kv_heads=8,
        attn_backends=[],
    )
    return w


def regions(base: int, layers: int) -> list[Any]:
    """One region for each layer."""
    return [
        module.TransferRegion(
            layer_name=f"l{i}",
            layer_index=i,
            base_addr=base + i * LAYER_BYTES,
            block_len=BLOCK_LEN,
            kv_block_len=BLOCK_LEN,
        )
        for i in range(layers)
    ]


def plan(w: Any, layers: int, source: list[int], destination: list[int]) -> tuple[float, int]:
    """Plans once: seconds, and the number of copies."""
    local, remote = regions(LOCAL, layers), regions(REMOTE, layers)
    metadata = module.MooncakeXferMetadata(
        remote_hostname="h",
        remote_port=1,
        remote_tp_size=1,
        remote_tp_rank=0,
        req_blocks={"d": ("x", [destination])},
        kv_caches_base_addr=[],
        block_lens=[],
        kv_block_lens=[],
    )
    blocks = module.SendBlockMeta(p_req_id="p", transfer_id="x", local_block_ids=[source], ready=None)
    began = time.perf_counter()
    answer = asyncio.run(w._build_transfer_params([("d", blocks)], metadata, local, remote))
    return time.perf_counter() - began, len(answer[0])


def main() -> None:
    """Plans what it is told to."""
    logging.disable(logging.CRITICAL)
    w = worker()
    emit("ready")
    for line in sys.stdin:
        command = json.loads(line)
        if command["cmd"] == "quit":
            break
        seconds, descriptors = plan(w, command["layers"], command["source"], command["destination"])
        emit("planned", seconds=seconds, descriptors=descriptors)
    os._exit(0)


main()
