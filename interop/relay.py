"""What stands between a decoder and a prefiller in some cases: a relay of the side channel, and a raw client."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import msgspec
import zmq

POLL_MILLIS = 20

Message = dict[str, Any]
Alter = Callable[[Message], Message]


def query(bootstrap: str) -> dict[str, Any]:
    """What a bootstrap server knows."""
    with urllib.request.urlopen(f"{bootstrap}/query", timeout=10) as answer:
        return json.load(answer)


def register(bootstrap: str, engine_id: str, dp_rank: int, address: str) -> None:
    """Registers a prefiller of one rank."""
    payload = {"engine_id": engine_id, "dp_rank": dp_rank, "tp_rank": 0, "pp_rank": 0, "addr": address}
    request = urllib.request.Request(
        f"{bootstrap}/register", json.dumps(payload).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()


def address_of(bootstrap: str, engine_id: str) -> str:
    """The side channel of an engine with one rank."""
    for entry in query(bootstrap).values():
        if entry["engine_id"] == engine_id:
            return str(entry["worker_addr"]["0"]["0"])
    raise AssertionError(f"{engine_id} is not registered at {bootstrap}")


def unchanged(message: Message) -> Message:
    """Passes a message on as it is."""
    return message


class Relay:
    """Takes pulls as a prefiller does, passes them on to one, and passes its answers back; keeps a copy of all."""

    _registered: dict[str, int] = {}

    def __init__(self, bootstrap: str, engine_id: str, pull: Alter = unchanged, answer: Alter = unchanged) -> None:
        self.pulls: list[Message] = []
        self.answers: list[Message] = []
        self._target = address_of(bootstrap, engine_id)
        self._alter_pull = pull
        self._alter_answer = answer
        self._stopping = False
        self._context = zmq.Context()
        self._front = self._context.socket(zmq.ROUTER)
        port = self._front.bind_to_random_port("tcp://127.0.0.1")
        # Data-parallel ranks from 2 on are nobody else's here.
        number = self._registered.get(bootstrap, 1) + 1
        self._registered[bootstrap] = number
        self.engine_id = f"relay-{number}-of-{engine_id}"
        register(bootstrap, self.engine_id, number, f"tcp://127.0.0.1:{port}")
        self._thread = threading.Thread(target=self._serve, daemon=True, name="relay")
        self._thread.start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join(5)
        self._context.destroy(linger=0)

    def _serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self._front, zmq.POLLIN)
        backs: dict[Any, bytes] = {}
        by_client: dict[bytes, Any] = {}
        while not self._stopping:
            for socket, _ in poller.poll(POLL_MILLIS):
                if socket is self._front:
                    client, payload = self._front.recv_multipart()
                    back = by_client.get(client)
                    if back is None:
                        back = self._context.socket(zmq.DEALER)
                        back.connect(self._target)
                        poller.register(back, zmq.POLLIN)
                        by_client[client] = back
                        backs[back] = client
                    back.send(_altered(payload, self._alter_pull, self.pulls))
                else:
                    answer = _altered(socket.recv(), self._alter_answer, self.answers)
                    self._front.send_multipart([backs[socket], answer])


def _altered(payload: bytes, alter: Alter, kept: list[Message]) -> bytes:
    message = msgspec.msgpack.decode(payload)
    kept.append(message)
    return msgspec.msgpack.encode(alter(dict(message)))


class RawClient:
    """Sends whatever it is told to a prefiller's side channel."""

    def __init__(self, bootstrap: str, engine_id: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.connect(address_of(bootstrap, engine_id))

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.destroy(linger=0)

    def send(self, *frames: bytes) -> None:
        """Sends one message of these frames."""
        self._socket.send_multipart(list(frames))

    def ask(self, message: Message, timeout: float = 10) -> Message:
        """Sends a message and waits for one answer."""
        self.send(msgspec.msgpack.encode(message))
        return self.answer(timeout)

    def answer(self, timeout: float = 10) -> Message:
        """Waits for an answer."""
        if not self._socket.poll(int(timeout * 1000)):
            raise AssertionError(f"no answer within {timeout:g} s")
        return dict(msgspec.msgpack.decode(self._socket.recv()))
