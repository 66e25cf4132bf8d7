"""Builds a release into `dist/`: `make release`. It publishes nothing.

The sdist and the wheel are built twice from the last commit, in a checkout of its own, and have to be equal byte for
byte: whoever builds the same commit with the same lock gets the same files. They are checked for a description that an
index can show, and the wheel for its files: those of git, no more and no less. Beside them lie a parts list (CycloneDX)
of what each kind of installation brings in, and the hashes of all files.

The tools come from requirements/release.lock, in an environment of their own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tools.build_archive import PACKAGE
from tools.setup import ROOT, SetupError, build_apart

ENVIRONMENT = ROOT / ".release"
DIST = ROOT / "dist"
KINDS_OF_INSTALLATION = ("ask", "writer")


def main() -> int:
    try:
        build_apart(ENVIRONMENT)
        for name in release(DIST):
            print(name)
    except SetupError as error:
        print(f"release: {error}", file=sys.stderr)
        return 2
    return 0


def release(target: Path) -> list[str]:
    """Builds and checks everything, and returns the lines of SHA256SUMS."""
    if ran(["git", "status", "--porcelain"]):
        raise SetupError("There are changes that are not committed: commit them or put them away, and run it again.")
    with tempfile.TemporaryDirectory() as folder:
        first, second = (built(Path(folder) / name) for name in ("first", "second"))
        different = [name for name in first if first[name] != second.get(name)]
        if different or len(first) != len(second):
            raise SetupError(f"Two builds of one commit differ: {', '.join(different) or 'other files'}.")
    target.mkdir(exist_ok=True)
    for left in target.iterdir():
        left.unlink()
    for name, content in first.items():
        (target / name).write_bytes(content)
    check(target)
    write_parts_lists(target)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(target.iterdir())]
    (target / "SHA256SUMS").write_text("".join(f"{line}\n" for line in lines))
    return lines


def built(folder: Path) -> dict[str, bytes]:
    """Builds the last commit in a separate checkout, and returns the files by name."""
    ran(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)])
    committed_at_s = ran(["git", "log", "-1", "--format=%ct"])
    out = folder / "dist"
    tool("-m", "build", "--no-isolation", "--outdir", str(out), str(folder), SOURCE_DATE_EPOCH=committed_at_s)
    files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
    return {
        name: without_times(content, int(committed_at_s)) if name.endswith(".tar.gz") else content
        for name, content in files.items()
    }


def without_times(archive: bytes, at_s: int) -> bytes:
    """Returns an sdist whose members have one time and no owner: setuptools takes these from the files."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as before,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=at_s) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for member in sorted(before.getmembers(), key=lambda each: each.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime, member.pax_headers = at_s, {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            after.addfile(member, before.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def check(folder: Path) -> None:
    """Raises SetupError if an index could not show the description, or if the wheel has other files than git."""
    tool("-m", "twine", "check", "--strict", *map(str, folder.glob("groupledger-*")))
    (wheel,) = folder.glob("*.whl")
    found = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(f"{PACKAGE}/")}
    folders = [path.name for path in (ROOT / PACKAGE).iterdir() if path.is_symlink()]
    files = ran(["git", "ls-files", *folders]).splitlines()
    expected = {f"{PACKAGE}/{name}" for name in (*files, "__init__.py", "py.typed")}
    if found != expected:
        raise SetupError(f"The wheel and git have other files: {', '.join(sorted(found ^ expected)[:10])}.")


def write_parts_lists(folder: Path) -> None:
    for name in KINDS_OF_INSTALLATION:
        lock = ROOT / "requirements" / f"{name}.lock"
        out = folder / f"groupledger-{name}.cdx.json"
        options = ("--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--output-file", str(out))
        tool("-m", "cyclonedx_py", "requirements", *options, str(lock))


def tool(*arguments: str, **variables: str) -> None:
    """Runs a module of the release's environment."""
    ran([str(ENVIRONMENT / "bin" / "python"), *arguments], **variables)


def ran(command: list[str], **variables: str) -> str:
    """Returns the output of a command. Raises SetupError with the end of its output if it failed."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"`{' '.join(command[:4])} ...` failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
