"""How much of a trace a larger place for copies brings back: is its size worth learning?

    python -m bench.host_sizes --trace conversation_trace.jsonl --shorter 16 --sizes 47MiB,1GiB

The requests of a large service, shortened to those of a small machine, are simulated one after
the other in a pool that holds one of the longest, so that what is known of a prompt is mostly what
the place for copies holds. No model is needed; `--cell-bytes` are those of the model meant, here of
the starter model with 16-bit keys and values.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from bench.foresight import STEPS
from bench.shortening import shortened
from edgekv.budget.sizes import parse_size
from edgekv.traffic.room import Room
from edgekv.traffic.simulation import simulate
from edgekv.traffic.trace import Trace, read_trace

STARTER_CELL_BYTES = 23_040


def hit_rates(trace: Trace, room: Room, host_cells: list[int]) -> list[float]:
    """The part of all prompt tokens that needed no computing, with room for so many copies."""
    alone, steps = trace.apart(), STEPS["flash"]
    rooms = (replace(room, host_cells=count) for count in host_cells)
    return [simulate(alone, one, steps).hit_rate for one in rooms]


def main() -> None:
    parser = argparse.ArgumentParser(description="What larger places for copies bring back.")
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--shorter", type=int, default=16)
    parser.add_argument("--requests", type=int, default=2000, help="at most")
    parser.add_argument("--cells", type=int, default=4096, help="of the pool")
    parser.add_argument("--sizes", default="0,47MiB,256MiB,1GiB,8GiB")
    parser.add_argument("--cell-bytes", type=int, default=STARTER_CELL_BYTES)
    options = parser.parse_args()
    room = Room(slots=1, kept=32, cells=options.cells, context_length=options.cells, batch=512)
    fitting = shortened(read_trace(options.trace), options.shorter).no_longer_than(options.cells)
    trace = Trace(fitting.requests[: options.requests])
    sizes = options.sizes.split(",")
    host_cells = [parse_size(size) // options.cell_bytes for size in sizes]
    result = {
        "bench": "host_sizes",
        "trace": options.trace.name,
        "requests": len(trace.requests),
        "hit_rates": dict(zip(sizes, hit_rates(trace, room, host_cells), strict=True)),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
