"""Runs the cases and prints what came of them. Started by interop.sh."""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import cases_blocks  # noqa: F401  (each enters its cases; the order is that of the run)
import cases_protocol  # noqa: F401
import cases_ranks  # noqa: F401
import cases_proxy  # noqa: F401
import cases_faults  # noqa: F401
from case import CASES, Case, Run
from fleet import Fleet, java_command

CASE_LIMIT = 420
"""Seconds after which a case is given up, whatever it waits for; peers that it starts are included."""

TAIL = 25


@dataclass
class Outcome:
    """What came of a case."""

    case: Case
    verified: int
    seconds: float
    reason: str | None
    notes: list[str]


def _arguments() -> argparse.Namespace:
    # interop.sh has the help.
    parser = argparse.ArgumentParser(prog="./interop.sh", add_help=False, usage="./interop.sh --help tells")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", action="append")
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--keep-logs", action="store_true")
    return parser.parse_args()


def _line(case: Case) -> str:
    return f"{case.name} | {case.direction} | {case.ranks} | {case.blocks}"


def _selected(patterns: list[str] | None) -> list[Case]:
    if not patterns:
        return CASES
    return [c for c in CASES if any(fnmatch.fnmatch(_line(c).lower(), f"*{p.lower()}*") for p in patterns)]


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"given up after {CASE_LIMIT} s")


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(130)


def _run(case: Case, fleet: Fleet) -> Outcome:
    began = time.monotonic()
    run: Run | None = None
    reason = None
    signal.alarm(CASE_LIMIT)
    try:
        sides = dict(zip(case.sides, fleet.sides(case.sides), strict=True))
        others = [sides[name] for name in case.others]
        # A guest starts in the case itself; until then its host stands for it.
        run = Run(case, fleet, sides.get(case.prefiller) or others[0], sides[case.decoder], others)
        for side in sides.values():
            for rank in side.ranks:
                rank.forget_events()
        for side in sides.values():
            if side.spec.role != "prefiller":  # only a decoder's blocks are written to
                side.refill()
        began = time.monotonic()
        case.run(run)
        run.idle()
    except Exception as e:  # whatever it is, the other cases go on
        reason = str(e) or type(e).__name__
        if not isinstance(e, AssertionError):
            traceback.print_exc()
    finally:
        signal.alarm(0)
    seconds = time.monotonic() - began
    return Outcome(case, run.verified if run else 0, seconds, reason, run.notes if run else [])


def _tell(outcome: Outcome, number: int, count: int) -> None:
    result = "ok" if outcome.reason is None else f"FAILED: {outcome.reason}"
    print(f"[{number}/{count}] {_line(outcome.case)}: {result} ({outcome.seconds:.1f} s)", flush=True)
    for note in outcome.notes:
        print(f"        {note}", flush=True)


def _show_logs(logs: Path, since: float) -> None:
    """The ends of the logs that were written to during a case."""
    for log in sorted(logs.glob("*.log")):
        if log.stat().st_mtime >= since:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            print(f"--- the end of {log} ({len(lines)} lines)")
            print("\n".join(f"    {line[:300]}" for line in lines[-TAIL:]), flush=True)


def _table(outcomes: list[Outcome]) -> str:
    rows = [("case", "direction", "ranks", "blocks", "verified bytes", "seconds", "result")]
    for o in outcomes:
        result = "ok" if o.reason is None else f"FAILED: {o.reason[:120]}"
        rows.append(
            (o.case.name, o.case.direction, o.case.ranks, o.case.blocks, f"{o.verified:,}", f"{o.seconds:.1f}", result)
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    right = {4, 5}
    lines = []
    for row in rows:
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=False))]
        lines.append("  ".join([*cells, row[-1]]))
    return "\n".join(lines)


def _last_use(cases: list[Case]) -> dict[str, int]:
    return {name: i for i, case in enumerate(cases) for name in (*case.sides, case.prefiller)}


def main() -> int:
    """Runs what the command line selects; returns the exit code."""
    a = _arguments()
    cases = _selected(a.only)
    if a.list:
        print("\n".join(_line(case) for case in cases))
        return 0
    if not cases:
        print("interop: no case has that in its line; --list shows them", file=sys.stderr)
        return 2
    logs: Path = a.logs or Path(os.environ["INTEROP_TARGET"]) / "logs"
    if a.logs is None:
        shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGALRM, _give_up)
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    began = time.monotonic()
    fleet = Fleet(logs, java_command(os.environ["JAVA_HOME"], os.environ["INTEROP_CLASS_PATH"]))
    outcomes: list[Outcome] = []
    last_use = _last_use(cases)
    try:
        for i, case in enumerate(cases):
            since = time.time()
            outcomes.append(_run(case, fleet))
            _tell(outcomes[-1], i + 1, len(cases))
            if outcomes[-1].reason is not None:
                _show_logs(logs, since)
            for name in (*case.sides, case.prefiller):
                # What has failed once is not to spoil the next case.
                if last_use[name] == i or outcomes[-1].reason is not None:
                    fleet.drop(name)
    finally:
        fleet.close()
    failed = sum(o.reason is not None for o in outcomes)
    verified = sum(o.verified for o in outcomes)
    print(f"\n{_table(outcomes)}\n")
    if failed or a.keep_logs or a.logs is not None:
        print(f"logs: {logs}")
    else:
        shutil.rmtree(logs, ignore_errors=True)
    print(f"took {time.monotonic() - began:.0f} s")
    result = f"FAILED, {failed} of {len(outcomes)} cases" if failed else f"ok, {len(outcomes)} cases"
    print(f"interop: {result}, {verified} bytes verified")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
