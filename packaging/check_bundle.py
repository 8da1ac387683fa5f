"""Tries a bundle of Linux as people use it, on a machine that has nothing but a C library and zlib.

    python packaging/check_bundle.py dist/edgekv-….tar.xz --model models/STARTER.gguf

Unpacks the archive, looks at what it holds, and runs it moved, read-only, without an environment,
as another user, in a root of its own with no Python and no shell in it, as on an old processor,
and with every variant that this processor runs. `--onefile` tries the one file, too. Prints one
line a check; the first that fails ends it. What this system does not permit, or has no tool for,
is said and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import empty_root
import old_processor

STRANGE = "x y/ü 日本"
MOST_PROCESSES = 5
"""What unpacked it, the server, its engine, a template's child; one that tries a grammar."""
SECONDS_TO_START = 180
SECONDS_TO_END = 60
"""For a busy machine; a kill takes none of them."""
STRANGER = 4242
"""No user has this number, so nothing knows of a home."""
OLDEST_VARIANT = {"x86_64": "sse42", "aarch64": "armv8.0_1"}
OLDEST = f"libggml-cpu-{OLDEST_VARIANT[platform.machine()]}.so"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--onefile", type=Path)
    asked = parser.parse_args()
    # Where another user may look too; the usual place for temporary files is closed to them.
    with tempfile.TemporaryDirectory(prefix="edgekv-check-", dir="/var/tmp") as work:
        Path(work).chmod(0o755)
        folder = unpack(asked.archive, Path(work, STRANGE))
        weights = shutil.copy(asked.model, Path(work, STRANGE, "módel.gguf"))
        check_folder(folder, Path(weights), Path(work))
        if asked.onefile is not None:
            program = shutil.copy(asked.onefile, Path(work, STRANGE, "one"))
            check(Path(program), Path(weights), Path(work, "one"))


def check_folder(folder: Path, model: Path, work: Path) -> None:
    program = folder / "edgekv"
    every_library_is_found(folder)
    check(program, model, work / "folder")
    if is_portable(folder):
        foreign_library_does_not_win(program, work)
        old_processor_is_enough(program, model, work)
        every_variant_answers(folder, model)
    else:
        left_out("LD_LIBRARY_PATH and old processors: its llama.cpp is that of this environment")


def check(program: Path, model: Path, work: Path) -> None:
    """What a folder's program and one file have in common."""
    work.mkdir()
    use([str(program)], str(model))
    done(f"{program.name}: moved, in a path with spaces and letters, with no environment at all")
    serve([str(program)], str(model), kill_it=True)
    done(f"{program.name}: its processes end with it, after kill -9 too")
    if os.geteuid() == 0:
        subprocess.run(["chmod", "-R", "a-w", program.parent], check=True)
        become = f"setpriv --reuid={STRANGER} --regid={STRANGER} --clear-groups env -i"
        use([*become.split(), str(program)], str(model))
        done(f"{program.name}: read-only, as a user that the system does not know")
    else:
        left_out("another user: only root may become one")
    if empty_root.may_be_entered():
        use(*empty_root.furnish(work / "root", program, model))
        done(f"{program.name}: in a root with nothing but the C library and zlib")
    else:
        left_out("an empty root: this system does not let us enter one")


def is_portable(folder: Path) -> bool:
    """Whether it has code for many processors and picks some, as build_library.py makes it."""
    return bool(list(folder.glob("_internal/llama_cpp/lib/libggml-cpu-*.so")))


def unpack(archive: Path, where: Path) -> Path:
    """By tar, after a look at the entries; Python's own reader must find the same."""
    with tarfile.open(archive) as entries:
        members = entries.getmembers()
        tops = {member.name.split("/")[0] for member in members}
        assert len(tops) == 1, tops
        assert not [m.name for m in members if m.name.startswith("/") or ".." in m.name.split("/")]
        assert {(m.uid, m.gid, m.uname) for m in members} == {(0, 0, "")}
        entries.extraction_filter = getattr(tarfile, "data_filter", None)  # since 3.11.4
        entries.extractall(where / "python")
    where.joinpath("tar").mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", where / "tar"], check=True)
    (top,) = tops
    seen = [fingerprint(where / reader / top) for reader in ("tar", "python")]
    assert seen[0] == seen[1], "tar and Python unpack it differently"
    assert [kind for _, kind in seen[0] if kind.startswith("link")], "it should hold links"
    shutil.rmtree(where / "python")
    moved = where / "moved"
    (where / "tar" / top).rename(moved)
    done(f"{len(members)} entries in one folder, links and run bits as they were")
    return moved


def fingerprint(folder: Path) -> list[tuple[str, str]]:
    """Every entry with what it is: a link and where to, or whether it may be run."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            assert path.exists(), f"{path} leads nowhere"
            kind = f"link {path.readlink()}"
        else:
            kind = "run" if path.stat().st_mode & 0o100 else "read"
        found.append((str(path.relative_to(folder)), kind))
    return found


def every_library_is_found(folder: Path) -> None:
    libraries = [path for path in folder.rglob("*.so*") if not path.is_symlink()]
    for path in libraries:
        # PyInstaller's own start puts this folder first.
        told = {"LD_LIBRARY_PATH": str(folder / "_internal")}
        found = subprocess.run(["ldd", path], capture_output=True, text=True, env=told, check=False)
        assert "not found" not in found.stdout, f"{path}:\n{found.stdout}"
    inside = {path.name for path in (folder / "_internal/llama_cpp/lib").iterdir()}
    assert {"libllama.so", "libggml.so", "libggml-base.so.0"} <= inside, inside
    assert [name for name in inside if name.startswith("libggml-cpu")], inside
    done(f"{len(libraries)} libraries, none of them lacks another")


def foreign_library_does_not_win(program: Path, work: Path) -> None:
    elsewhere = work / "elsewhere"
    elsewhere.mkdir()
    for name in ("libllama.so", "libggml.so.0", "libggml-base.so.0"):
        (elsewhere / name).write_bytes(b"not a library")
    said = subprocess.run(
        [program, "library"],
        capture_output=True,
        env={"LD_LIBRARY_PATH": str(elsewhere)},
        check=True,
    )
    loaded = json.loads(said.stdout)["loaded"]
    assert all(path.startswith(str(program.parent)) for path in loaded), loaded
    done("LD_LIBRARY_PATH does not lead it elsewhere")


def old_processor_is_enough(program: Path, model: Path, work: Path) -> None:
    prefix = old_processor.prefix(work)
    if prefix is None:
        left_out(f"an old processor: needs {old_processor.EMULATOR} and Linux 6.7")
        return
    assert variant([*prefix, str(program)]) == OLDEST
    chat = ["chat", str(model), "--ctx", "64"]  # a token takes the emulator seconds
    assert run([*prefix, str(program)], *chat, said=b"Name one colour.").strip()
    done(f"answers on an emulated {old_processor.PROCESSOR}, with {OLDEST}")


def every_variant_answers(folder: Path, model: Path) -> None:
    """From the best for this processor down to the oldest. Each is removed once it has answered."""
    command = [str(folder / "edgekv")]
    answered = [""]
    while answered[-1] != OLDEST:
        answered.append(variant(command))
        assert run(command, "chat", str(model), said=b"Name one colour.").strip()
        folder.joinpath("_internal/llama_cpp/lib", answered[-1]).unlink()
        done(f"answers with {answered[-1]}")


def variant(command: Sequence[str]) -> str:
    """The library with this processor's code that was loaded."""
    loaded = json.loads(run(command, "library"))["loaded"]
    (name,) = (Path(path).name for path in loaded if "libggml-cpu-" in path)
    return name


def use(command: Sequence[str], model: str) -> None:
    """A plan, an answer, a served request and the doctor's opinion."""
    plan = json.loads(run(command, "plan", model, "--json"))
    assert plan["fits"], plan
    assert run(command, "chat", model, said=b"Name one colour.").strip()
    findings = json.loads(run(command, "doctor", model, "--json"))
    assert findings["verdict"] != "fault", findings
    serve(command, model, kill_it=False)


def run(command: Sequence[str], *arguments: str, said: bytes = b"") -> bytes:
    done = subprocess.run(
        [*command, *arguments], input=said, capture_output=True, env={}, check=False
    )
    words = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode == 0, f"{arguments}: {words}"
    return done.stdout


def serve(command: Sequence[str], model: str, *, kill_it: bool) -> None:
    """One request, and an end that leaves nothing behind."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # What one file unpacked and a kill leaves behind is gone with the rest.
    environment = {"TMPDIR": str(Path(model).parent)} if kill_it else {}
    server = subprocess.Popen(
        [*command, "serve", model, "--port", str(port)], env=environment, stderr=subprocess.DEVNULL
    )
    family = []
    try:
        ask(f"http://127.0.0.1:{port}", server)
        family = [server.pid, *children_of(server.pid)]
        assert len(family) <= MOST_PROCESSES, family
    finally:
        server.send_signal(signal.SIGKILL if kill_it else signal.SIGTERM)
        server.wait(SECONDS_TO_END)
    until(lambda: not [pid for pid in family if Path(f"/proc/{pid}").exists()], SECONDS_TO_END)
    socket.create_server(("127.0.0.1", port)).close()


def ask(url: str, server: subprocess.Popen[bytes]) -> None:
    def is_ready() -> bool:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        try:
            return bool(urllib.request.urlopen(f"{url}/health").status == 200)
        except OSError:
            return False

    until(is_ready, SECONDS_TO_START)
    body = {"messages": [{"role": "user", "content": "Name one colour."}], "max_tokens": 8}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    answer = json.load(urllib.request.urlopen(request))
    assert answer["choices"][0]["message"]["content"].strip(), answer


def children_of(pid: int) -> list[int]:
    lists = [file.read_text() for file in Path(f"/proc/{pid}").glob("task/*/children")]
    children = [int(child) for one in lists for child in one.split()]
    return [*children, *(grandchild for child in children for grandchild in children_of(child))]


def until(is_so: object, seconds: float) -> None:
    assert callable(is_so)
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"still not so after {seconds} seconds"
        time.sleep(0.1)


def done(what: str) -> None:
    _say("ok ", what)


def left_out(what: str) -> None:
    _say("-- ", f"not tried: {what}")


def _say(mark: str, what: str) -> None:
    sys.stdout.write(f"{mark} {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
