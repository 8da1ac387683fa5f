"""Where a bundled EdgeKV begins: the same as `python -m edgekv`."""

from __future__ import annotations

from edgekv.cli.main import main

main()
