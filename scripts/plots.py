#!/usr/bin/env python3
"""Draws docs/pictures/latency.svg and descriptors.svg from the medians of ./bench.sh and ./gpu-bench.sh.

    scripts/plots.py [--bench target/bench] [--gpu target/bench/gpu]

What a run has measured is first reduced to medians, in docs/performance/*.json; without a folder those are drawn
as they are.
"""

import argparse
import json
import math
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "performance"
PICTURES = ROOT / "docs" / "pictures"

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 780, 460, 70, 44, 210, 54
COLOURS = {"ours": "#0b6bcb", "vllm": "#c2410c", "engine": "#64748b"}


def reduce_bench(folder: Path) -> None:
    rows = []
    for entry in json.loads((folder / "one-request.json").read_text()):
        milliseconds = statistics.median(each["total"] for each in entry["rounds"]) * 1e3
        rows.append({**{key: entry[key] for key in ("party", "blocks", "mode", "bytes")}, "p50_ms": round(milliseconds, 3)})
    write(DATA / "tcp.json", rows)


def reduce_gpu(folder: Path) -> None:
    rows = []
    for file in sorted(folder.glob("gpu_*.json")):
        case = json.loads(file.read_text())
        row = {key: case[key] for key in ("transport", "shape", "blocks", "pattern", "bytes", "descriptors")}
        for name in ("pull", "write", "bare", "plain"):
            row[name + "_ms"] = round(statistics.median(case[name + "_nanos"]) / 1e6, 4)
        row["rounds"] = len(case["pull_nanos"])
        rows.append(row)
    write(DATA / "h200.json", rows)


def write(file: Path, rows: list) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text("[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]\n")


def chart(title: str, x_label: str, y_label: str, series: list) -> str:
    """A chart with logarithmic axes; series are (name, colour, dashed, [(x, y)])."""
    points = [point for *_, line in series for point in line]
    low_x, high_x = span([x for x, _ in points])
    low_y, high_y = span([y for _, y in points])

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (math.log10(x) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (math.log10(y) - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM),
        )

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{title}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{x_label}</text>',
        f'<text x="18" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 18 {HEIGHT / 2})">{y_label}</text>',
    ]
    for exponent in range(math.ceil(low_x), math.floor(high_x) + 1):
        x, _ = at(10**exponent, 10**low_y)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#e2e8f0"/>')
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label(exponent)}</text>')
    for exponent in range(math.ceil(low_y), math.floor(high_y) + 1):
        _, y = at(10**low_x, 10**exponent)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e2e8f0"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label(exponent)}</text>')
    for row, (name, colour, dashed, line) in enumerate(series):
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in sorted(line)))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in (at(*p) for p in line)]
        y = TOP + 14 + 20 * row
        x = WIDTH - RIGHT + 14
        out.append(f'<line x1="{x}" y1="{y - 4}" x2="{x + 24}" y2="{y - 4}" stroke="{colour}" stroke-width="2"{dash}/>')
        out.append(f'<text x="{x + 30}" y="{y}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def span(values: list) -> tuple[float, float]:
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = 0.06 * (high - low)
    return low - margin, high + margin


def label(exponent: int) -> str:
    return f"{10**exponent:,}" if exponent >= 0 else f"{10.0**exponent:g}"


def latency(rows: list) -> str:
    series = []
    for mode in ("contiguous", "scattered"):
        for party, name in (("ours", "ours"), ("vllm", "vLLM"), ("engine", "engine alone")):
            best: dict[float, float] = {}
            for row in rows:
                if row["mode"] == mode and row["party"].split(",")[0] == party:
                    size = row["bytes"] / 1e6
                    best[size] = min(row["p50_ms"], best.get(size, math.inf))
            if best:
                series.append((f"{name}, {mode}", COLOURS[party], mode == "scattered", list(best.items())))
    return chart("One request over tcp loopback, p50", "megabytes", "milliseconds", series)


def descriptors(rows: list) -> str:
    series = []
    for shape, dashed in (("qwen2.5-7b", False), ("deepseek-mla", True)):
        cases = [r for r in rows if r["transport"] == "nvlink_intra" and r["shape"] == shape and r["pattern"] == "SCATTERED"]
        for key, name, colour in (("pull_ms", "ours", "ours"), ("bare_ms", "one batch", "engine")):
            line = [(case["descriptors"], case[key]) for case in cases]
            series.append((f"{name}, {shape}", COLOURS[colour], dashed, line))
    return chart("Scattered blocks on one H200, through CUDA IPC, p50", "descriptors", "milliseconds", series)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path)
    parser.add_argument("--gpu", type=Path)
    options = parser.parse_args()
    if options.bench:
        reduce_bench(options.bench)
    if options.gpu:
        reduce_gpu(options.gpu)
    for name, draw, data in (("latency", latency, "tcp"), ("descriptors", descriptors, "h200")):
        file = DATA / f"{data}.json"
        if file.exists():
            (PICTURES / f"{name}.svg").write_text(draw(json.loads(file.read_text())))


if __name__ == "__main__":
    main()
