"""Peers as processes: commands go in and events come out as JSON lines."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

SOON = 30.0
"""Seconds that an answer may take where nothing else is said."""

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)

Event = dict[str, Any]


class PeerError(AssertionError):
    """A peer did not do what was waited for."""


def die_with_parent() -> None:
    """For a child process: it is killed when the driver ends."""
    # Started by the driver's main thread alone: the signal comes when the starting thread ends.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Peer:
    """One peer process, in a process group of its own."""

    def __init__(self, name: str, command: list[str], log: Path, environment: dict[str, str]) -> None:
        self.name = name
        self.log = log
        self.ready: Event = {}
        self._events: list[Event] = []
        self._changed = threading.Condition()
        self._ended = False
        self._log_file = log.open("wb")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log_file,
            env={**os.environ, **environment},
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        threading.Thread(target=self._read, daemon=True, name=f"events of {name}").start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # half a line of a killed process
            with self._changed:
                self._events.append(event)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def await_ready(self, timeout: float) -> None:
        """Waits until the peer says that it can be used."""
        event = self._await(("ready", "start_failed"), timeout, {})
        if event["event"] != "ready":
            raise PeerError(f"{self.name} did not start: {event}")
        self.ready = event

    def send(self, **command: Any) -> None:
        """Sends a command."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps(command) + "\n").encode())
            self._process.stdin.flush()
        except OSError as e:
            raise PeerError(f"{self.name} takes no commands: {e}") from e

    def wait(self, event: str, timeout: float = SOON, **fields: Any) -> Event:
        """The next event of that name with these values; others are kept for later calls."""
        return self._await((event,), timeout, fields)

    def ask(self, event: str, **command: Any) -> Event:
        """Sends a command and waits for its answer."""
        self.send(**command)
        return self.wait(event)

    def has(self, event: str, **fields: Any) -> bool:
        """Whether such an event has come; it is kept."""
        with self._changed:
            return any(_matches(e, (event,), fields) for e in self._events)

    def forget_events(self) -> None:
        """Forgets the events that nobody has waited for."""
        with self._changed:
            self._events.clear()

    def _await(self, names: tuple[str, ...], timeout: float, fields: Event) -> Event:
        until = time.monotonic() + timeout
        wanted = "/".join(names) + (f" {fields}" if fields else "")
        with self._changed:
            while True:
                for i, event in enumerate(self._events):
                    if _matches(event, names, fields):
                        return self._events.pop(i)
                errors = [e for e in self._events if e["event"] == "command_error"]
                if errors:
                    raise PeerError(f"{self.name}: a command failed, waiting for {wanted}: {errors[0]}")
                if self._ended:
                    raise PeerError(f"{self.name} ended (code {self._process.poll()}) without {wanted}")
                left = until - time.monotonic()
                if left <= 0:
                    raise PeerError(
                        f"{self.name} told no {wanted} within {timeout:g} s; last: {_short(self._events[-3:])}"
                    )
                self._changed.wait(left)

    def kill(self) -> None:
        """Kills it at once, and what it has started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._log_file.close()

    def close(self) -> None:
        """Lets it end by itself, for a while."""
        if self.alive:
            try:
                self.send(cmd="quit")
                self._process.wait(5)
            except (PeerError, subprocess.TimeoutExpired):
                pass
        self.kill()

    def log_text(self) -> str:
        """All of its standard error so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def _matches(event: Event, names: tuple[str, ...], fields: Event) -> bool:
    return event["event"] in names and all(event.get(k) == v for k, v in fields.items())


def _short(events: list[Event]) -> str:
    text = json.dumps(events)
    return text if len(text) <= 600 else text[:600] + "..."
