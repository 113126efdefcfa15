"""The proxy in front of both sides: requests come in over HTTP, and the connectors behind it move the blocks."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from case import Ids, Run, case
from fleet import free_port, java_command
from processes import PeerError, die_with_parent

REQUESTS = 6
BLOCKS = 16
PROXY_START = 60.0
ANSWER = 60.0

Body = dict[str, Any]


class _Server(ThreadingHTTPServer):
    """What an inference server shows of itself: completions, behind which a connector stands."""

    daemon_threads = True

    def __init__(self, what: Any) -> None:
        self.what = what
        self.seen: list[Body] = []
        # Peers take one command at a time, as a server's scheduler does.
        self.turn = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append({**body, "headers": dict(self.headers)})
        try:
            text, status = self.server.what(body, self.server.turn), 200
        except Exception as e:  # told as a server would
            text, status = str(e), 500
        answer = json.dumps({"choices": [{"index": 0, "text": text}]}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def _serving(what: Any) -> Iterator[_Server]:
    server = _Server(what)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _proxy(run: Run, prefill: str, decode: str) -> Iterator[str]:
    java = java_command(os.environ["JAVA_HOME"], os.environ["INTEROP_CLASS_PATH"])
    port = free_port()
    bootstrap_port = run.p.bootstrap.rpartition(":")[2]
    command = [*java[:-1], "dev.mooncake4j.examples.proxy.Proxy", "--port", str(port)]
    command += ["--prefill", prefill, bootstrap_port, "--decode", decode]
    with run.fleet.log("proxy").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _await_health(url, process)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_health(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PROXY_START
    while time.monotonic() < until:
        if process.poll() is not None:
            raise PeerError(f"the proxy ended with code {process.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise PeerError(f"the proxy was not healthy within {PROXY_START:g} s")


def _complete(url: str, body: Body) -> str:
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER) as answer:
            return str(json.load(answer)["choices"][0]["text"])
    except urllib.error.HTTPError as e:
        raise PeerError(f"the proxy answered {e.code}: {e.read().decode(errors='replace')[:300]}") from e


@case("through the proxy", "java-p-proxied", "vllm-d", f"{REQUESTS} x {BLOCKS}")
@case("through the proxy", "vllm-p-proxied", "java-d", f"{REQUESTS} x {BLOCKS}")
@case("through the proxy", "java-p-proxied", "java-d", f"{REQUESTS} x {BLOCKS}")
def through_the_proxy(run: Run) -> None:
    """A client's request reaches both sides with what the transfer needs, and the decoder has the blocks."""
    held = run.ids(REQUESTS * BLOCKS, True)
    wanted = run.ids(REQUESTS * BLOCKS, True)
    transfers: dict[str, tuple[Ids, Ids]] = {}

    def part(ids: Ids, prompt: str) -> Ids:
        first = int(prompt) * BLOCKS
        return ids[first : first + BLOCKS]

    def prefill(body: Body, turn: threading.Lock) -> str:
        transfer = body["kv_transfer_params"]["transfer_id"]
        with turn:
            run.prefill(transfer, part(held, body["prompt"]))
        return ""

    def decode(body: Body, turn: threading.Lock) -> str:
        params = body["kv_transfer_params"]
        transfer, blocks = params["transfer_id"], part(wanted, body["prompt"])
        transfers[transfer] = (part(held, body["prompt"]), blocks)
        command = {
            "req_id": f"d-{transfer}",
            "transfer_id": transfer,
            "remote_engine_id": params["remote_engine_id"],
            "remote_bootstrap_addr": params["remote_bootstrap_addr"],
            "block_ids": blocks,
            "cached_blocks": 0,
        }
        with turn:
            run.pull(command)
        run.received(transfer)
        return f"answer to {body['prompt']}"

    with _serving(prefill) as p, _serving(decode) as d, _proxy(run, p.url, d.url) as proxy:
        for i in range(REQUESTS):
            text = _complete(proxy, {"model": "m", "prompt": str(i), "max_tokens": 8})
            if text != f"answer to {i}":
                raise PeerError(f"the client got {text!r}")
        if [b["max_tokens"] for b in p.seen] != [1] * REQUESTS or any(b.get("stream") for b in p.seen):
            raise PeerError(f"the prefiller was asked for more than a prefill: {p.seen}")
        for asked in (p.seen, d.seen):
            if any("X-Request-Id" not in b["headers"] for b in asked):
                raise PeerError("a request came without X-Request-Id")
    if len(transfers) != REQUESTS:
        raise PeerError(f"transfer ids were used twice: {sorted(transfers)}")
    for transfer, (source, target) in transfers.items():
        run.sent(transfer)
        run.verify(source, target)
    run.untouched(wanted)
