"""A rank of vLLM's connector that measures in its own process, as dev.mooncake4j.bench.BenchPeer does around ours.

The commands, the events and the options are that class's. A request begins where the step begins that hands it to
the worker, and ends where vLLM's connector notes that its last pull is over; the poll that reports it does not count.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

# Whatever prints goes to standard error; the events have the standard output that was there before.
_EVENTS = os.dup(1)
os.dup2(2, 1)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "interop"))

from vllm_rank import VllmRank, options  # noqa: E402

POLL_SECONDS = 0.001
PULL_PATIENCE = 120.0

Command = dict[str, Any]


def emit(event: str, **fields: Any) -> None:
    """Writes one event."""
    data = (json.dumps({"event": event, **fields}, default=str) + "\n").encode()
    while data:
        data = data[os.write(_EVENTS, data) :]


class Peer:
    """Takes the commands in turn."""

    def __init__(self, rank: VllmRank) -> None:
        from vllm.v1.request import RequestStatus

        self._rank = rank
        self._status = RequestStatus
        self._ended: dict[str, int] = {}
        self._note_ends()

    def _note_ends(self) -> None:
        """Notes when the connector marks a request as received; the call itself goes through."""
        worker = self._rank.worker
        if worker.is_kv_producer:
            return
        original = worker._complete_pull_task

        def complete(pull_meta: Any) -> None:
            original(pull_meta)
            if pull_meta.pull_tasks_count == 0:
                self._ended[pull_meta.d_req_id] = time.perf_counter_ns()

        worker._complete_pull_task = complete

    def serve(self) -> None:
        """Runs until told to quit or the standard input ends."""
        a = self._rank.options
        emit(
            "ready",
            pid=os.getpid(),
            engine_id=self._rank.engine_id,
            bootstrap=f"http://{a.host}:{a.bootstrap_port}",
            cache_bytes=len(self._rank.layers) * a.num_blocks * self._rank.block_len,
        )
        for line in sys.stdin:
            command = json.loads(line)
            if command["cmd"] == "quit":
                return
            try:
                self._handle(command["cmd"], command)
            except Exception as e:  # the driver decides what becomes of it
                traceback.print_exc()
                emit("command_error", error=f"{type(e).__name__}: {e}")

    def _handle(self, name: str, c: Command) -> None:
        if name == "announce":
            self._announce(c["reqs"])
        elif name == "await_sent":
            self._await_sent(c["count"], c["timeout"])
        elif name == "pull":
            self._pull(c["reqs"])
        elif name == "release":
            self._release(c["reqs"])
        elif name == "checksum":
            emit("checksum", sha256=self._rank.checksum(c["block_ids"]))
        elif name == "zero":
            for memory in self._rank.memory:
                memory[c["block_ids"]] = 0
            emit("zeroed")
        else:
            raise ValueError(f"unknown cmd={name}")

    def _announce(self, reqs: list[Command]) -> None:
        scheduler, made = self._rank.scheduler, []
        for c in reqs:
            params = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": c["transfer_id"]}
            request = self._rank.request(c["req_id"], len(c["block_ids"]), params)
            scheduler.on_new_request(request)
            tokens, _ = scheduler.get_num_new_matched_tokens(request, 0)
            scheduler.update_state_after_alloc(request, self._rank.allocated(c["block_ids"], 0), tokens)
            made.append((request, c["block_ids"]))
        self._rank.step()
        for request, blocks in made:
            request.status = self._status.FINISHED_LENGTH_CAPPED
            delay_free, _ = scheduler.request_finished_all_groups(request, (list(blocks),))
            if not delay_free:
                raise RuntimeError(f"blocks of {request.request_id} are not kept")
        self._rank.step()
        emit("announced")

    def _await_sent(self, count: int, timeout: float) -> None:
        emit("waiting")
        ended: dict[str, int] = {}
        until = time.monotonic() + timeout
        while len(ended) < count and time.monotonic() < until:
            results = self._rank.connector.get_transfer_results(set())
            now = time.perf_counter_ns()
            ended.update((request_id, now) for request_id in results.finished_sending)
            if len(ended) < count:
                time.sleep(POLL_SECONDS)
        emit("sent", ended=ended, ends={}, allocated=-1)

    def _decode_request(self, c: Command, blocks: int) -> Any:
        params = {k: c[k] for k in ("remote_engine_id", "remote_bootstrap_addr", "transfer_id")}
        return self._rank.request(c["req_id"], blocks, {"do_remote_prefill": True, "do_remote_decode": False, **params})

    def _pull(self, reqs: list[Command]) -> None:
        scheduler, made = self._rank.scheduler, []
        for c in reqs:
            blocks = c["block_ids"]
            made.append((c["req_id"], self._decode_request(c, len(blocks)), self._rank.allocated(blocks, 0)))
        started = []
        for _, request, blocks in made:
            tokens, asynchronous = scheduler.get_num_new_matched_tokens(request, 0)
            if not asynchronous:
                raise RuntimeError(f"{request.request_id} is not to be fetched")
            scheduler.update_state_after_alloc(request, blocks, tokens)
            started.append(time.perf_counter_ns())
            self._rank.step()
        wanted, failed = {request_id for request_id, _, _ in made}, []
        until = time.monotonic() + PULL_PATIENCE
        while wanted and time.monotonic() < until:
            results = self._rank.connector.get_transfer_results(set())
            bad = self._rank.connector.get_block_ids_with_load_errors()
            if bad:
                failed.append(f"{len(bad)} blocks failed to load")
            wanted -= set(results.finished_recving)
            if wanted:
                time.sleep(POLL_SECONDS)
        if wanted:
            failed.append(f"{len(wanted)} not over after {PULL_PATIENCE} s")
        ended = [self._ended.pop(request_id, 0) for request_id, _, _ in made]
        emit("pulled", started=started, ended=ended, failed=failed, allocated=-1)

    def _release(self, reqs: list[Command]) -> None:
        made, started = [self._decode_request(c, 1) for c in reqs], []
        for request in made:
            request.status = self._status.FINISHED_ABORTED
            started.append(time.perf_counter_ns())
            self._rank.scheduler.request_finished_all_groups(request, ([],))
            self._rank.step()
        emit("released", started=started)


def main() -> int:
    """Runs one peer; returns its exit code."""
    try:
        Peer(VllmRank(options(sys.argv[1:]))).serve()
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the connector's threads are no daemons
