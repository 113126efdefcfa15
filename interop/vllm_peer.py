"""A rank of vLLM's connector, driven by the same JSON lines as the Java peer (dev.mooncake4j.it.PeerMain).

Standard input, one command a line:

    {"transfer_id", "req_id", "block_ids"}            the prefill is done, the blocks can be fetched
    {"cmd": "alloc", as above}                        the prefill has begun
    {"cmd": "finish" or "abort", "req_id"}            a prefill that has begun ends, or is given up
    {"req_id", "transfer_id", "remote_engine_id", "remote_bootstrap_addr", "block_ids"[, "cached_blocks"]}
    {"cmd": "pull_batch", "reqs": [as above]}         several in one scheduler step
    {"cmd": "release", as above}                      it ended before it was scheduled
    {"cmd": "checksum" or "nonzero", "block_ids"}     asks for the contents
    {"cmd": "fill", "seed"} {"cmd": "zero"} {"cmd": "state"} {"cmd": "forget_layouts"} {"cmd": "quit"}

Standard output, one event a line; all else goes to standard error.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from typing import Any

# Whatever prints goes to standard error; the events have the standard output that was there before.
_EVENTS = os.dup(1)
os.dup2(2, 1)

from vllm_rank import VllmRank, options  # noqa: E402

POLL_SECONDS = 0.001
IDLE_SECONDS = 0.02

Command = dict[str, Any]


def emit(event: str, **fields: Any) -> None:
    """Writes one event."""
    os.write(_EVENTS, (json.dumps({"event": event, **fields}, default=str) + "\n").encode())


class Peer:
    """Takes the commands in turn and tells what the connector reports."""

    def __init__(self, rank: VllmRank) -> None:
        from vllm.v1.request import RequestStatus

        self._rank = rank
        self._status = RequestStatus
        self._live: dict[str, tuple[Any, list[int]]] = {}
        self._load_errors: set[int] = set()
        self._stopping = False

    def ready(self) -> None:
        """Tells that the connector can be used."""
        rank, a = self._rank, self._rank.options
        emit(
            "ready",
            role=a.role,
            pid=os.getpid(),
            engine_id=rank.engine_id,
            version=rank.version,
            bootstrap=f"http://{a.bootstrap_server_address or f'{a.host}:{a.bootstrap_port}'}",
            num_blocks=a.num_blocks,
            block_len=rank.block_len,
            layers=len(rank.layers),
            tp=[a.tp_rank, a.tp_size],
            pp=[a.pp_rank, a.pp_size],
        )

    def serve(self) -> None:
        """Runs until told to quit or the standard input ends."""
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()
        while not self._stopping:
            try:
                line = lines.get(timeout=POLL_SECONDS if self._live else IDLE_SECONDS)
                if line is None:
                    return
                self._take(line)
            except queue.Empty:
                pass
            self._poll()

    @staticmethod
    def _read(lines: queue.Queue[str | None]) -> None:
        for line in sys.stdin:
            if line.strip():
                lines.put(line)
        lines.put(None)

    def _take(self, line: str) -> None:
        try:
            self._command(json.loads(line))
        except Exception as e:  # a bad command must not end the peer
            emit("command_error", error=f"{type(e).__name__}: {e}", line=line[:1000])

    def _command(self, c: Command) -> None:
        name = c.get("cmd")
        if name is None and "remote_engine_id" in c:
            self._pull([c])
        elif name is None:
            self._announce(c)
            self._finish(c["req_id"], "accepted", self._status.FINISHED_LENGTH_CAPPED)
        elif name == "pull_batch":
            self._pull(c["reqs"])
        elif name == "alloc":
            self._announce(c)
            emit("allocated", req_id=c["req_id"])
        elif name == "finish":
            self._finish(c["req_id"], "finished", self._status.FINISHED_LENGTH_CAPPED)
        elif name == "abort":
            self._finish(c["req_id"], "aborted", self._status.FINISHED_ABORTED)
        elif name == "release":
            self._release(c)
        elif name == "checksum":
            emit("checksum", sha256=self._rank.checksum(c["block_ids"]))
        elif name == "nonzero":
            emit("nonzero", n=self._rank.nonzero(c["block_ids"]))
        elif name == "fill":
            self._rank.fill(c["seed"])
            emit("filled")
        elif name == "zero":
            self._rank.fill(0)
            emit("zeroed")
        elif name == "state":
            emit("state", outstanding=sorted(self._live), layouts=len(self._rank.worker._layout_by_peer))
        elif name == "forget_layouts":
            # What the least recently used of more than 1024 decoders meets.
            self._rank.worker._layout_by_peer.clear()
            emit("layouts_forgotten")
        elif name == "quit":
            self._stopping = True
        else:
            raise ValueError(f"unknown cmd {name}")

    def _announce(self, c: Command) -> None:
        params = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": c["transfer_id"]}
        request = self._rank.request(c["req_id"], len(c["block_ids"]), params)
        self._live[c["req_id"]] = (request, c["block_ids"])
        scheduler = self._rank.scheduler
        scheduler.on_new_request(request)
        tokens, _ = scheduler.get_num_new_matched_tokens(request, 0)
        scheduler.update_state_after_alloc(request, self._rank.allocated(c["block_ids"], 0), tokens)
        self._rank.step()

    def _finish(self, request_id: str, event: str, status: Any) -> None:
        request, blocks = self._live[request_id]
        request.status = status
        delay_free, _ = self._rank.scheduler.request_finished_all_groups(request, (list(blocks),))
        self._rank.step()
        if not delay_free:
            del self._live[request_id]
        emit(event, req_id=request_id, delay_free=delay_free)

    def _decode_request(self, c: Command, blocks: int) -> Any:
        params = {k: c[k] for k in ("remote_engine_id", "remote_bootstrap_addr", "transfer_id")}
        return self._rank.request(c["req_id"], blocks, {"do_remote_prefill": True, "do_remote_decode": False, **params})

    def _pull(self, commands: list[Command]) -> None:
        scheduler, size = self._rank.scheduler, self._rank.options.block_size
        for c in commands:
            blocks, cached = c["block_ids"], c.get("cached_blocks", 0)
            request = self._decode_request(c, cached + len(blocks))
            tokens, asynchronous = scheduler.get_num_new_matched_tokens(request, cached * size)
            if tokens != len(blocks) * size or asynchronous != bool(blocks):
                raise ValueError(f"{c['req_id']} is not to be fetched: {tokens} tokens, {asynchronous}")
            scheduler.update_state_after_alloc(request, self._rank.allocated(blocks, cached), tokens)
            if blocks:
                self._live[c["req_id"]] = (request, blocks)
        self._rank.step()
        emit("pulling", req_ids=[c["req_id"] for c in commands])

    def _release(self, c: Command) -> None:
        request = self._decode_request(c, 1)
        request.status = self._status.FINISHED_ABORTED
        self._rank.scheduler.request_finished_all_groups(request, ([],))
        self._rank.step()
        emit("released", req_id=c["req_id"])

    def _poll(self) -> None:
        results = self._rank.connector.get_transfer_results(set())
        # Bad blocks may be told one poll before the request that they belong to.
        self._load_errors |= self._rank.connector.get_block_ids_with_load_errors()
        for request_id in sorted(results.finished_sending):
            self._live.pop(request_id, None)
            emit("finished_sending", req_id=request_id)
        for request_id in sorted(results.finished_recving):
            _, blocks = self._live.pop(request_id, (None, []))
            bad = self._load_errors.intersection(blocks)
            self._load_errors -= bad
            emit("finished_recving", req_id=request_id, load_error=bool(bad), bad_blocks=len(bad))


def main() -> int:
    """Runs one peer; returns its exit code."""
    try:
        peer = Peer(VllmRank(options(sys.argv[1:])))
        peer.ready()
        peer.serve()
    except Exception as e:
        traceback.print_exc()
        emit("start_failed", error=f"{type(e).__name__}: {e}")
        return 1
    emit("exit")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the connector's threads are no daemons
