"""Whether a checkpoint is the user's own, which means that they started the script in it.

`verify` and `state` recompile the program of a checkpoint and read the files that its script
names. That is as safe as running the script, if the user has run it; in somebody else's checkpoint
it is not. File owner and permissions do not show the difference: unpacked files belong to whoever
unpacks them. So each start adds lines to the file `signatures`: the HMAC, by a key that only this
user can read, of the script and its arguments, and one for each directory that it writes to.
A checkpoint may be moved.

A signature copied to another checkpoint allows what its owner has run, and nothing else. The files
that manifests name are not signed: `reach` compares them with the sources of the script.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from incmrql.io.files import ANYWHERE, Paths
from incmrql.runtime.checkpoint.manifests import Checkpoint
from incmrql.runtime.reach import unpublished_folders

if TYPE_CHECKING:
    from incmrql.runtime.driver import Driver


SIGNATURES: Final = "signatures"
_LENGTH: Final = 32


class NoKey(Exception):
    """There is no usable key; the message says why."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The paths that a command may use when it opens a checkpoint without running its script."""

    program: Paths
    """For recompiling the program and reading its input."""
    outputs: Paths
    """For publishing committed output."""


def sign(driver: Driver) -> None:
    """Sign the script of a run and the directories that it writes to: this user started it.

    Without a key nothing is signed, and the checkpoint is treated like somebody else's.
    """
    checkpoint, bad = driver.checkpoint.folder, driver.options.quarantine
    folders = [*(sink.folder for sink in driver.sinks), *([] if bad is None else [bad])]
    try:
        key = _key(create=True)
        known = _signatures(checkpoint)
        signatures = [_sign_script(key, driver.checkpoint.program["script"])]
        signatures += [_sign_folder(key, str(folder.absolute())) for folder in folders]
        new = [signature for signature in dict.fromkeys(signatures) if signature not in known]
        if new:
            with (checkpoint / SIGNATURES).open("a", encoding="ascii") as file:
                file.write("".join(f"{signature}\n" for signature in new))
    except (NoKey, OSError):
        return


def ownership(checkpoint: Checkpoint, allowed: Paths) -> Ownership:
    """The paths that a checkpoint may be used with, including those that the user allows."""
    folder, script = checkpoint.folder, checkpoint.description().get("script") or {}
    try:
        key = _key()
        known = _signatures(folder)
        why = "" if _sign_script(key, script) in known else f"it has no signature by {key_file()}"
    except (NoKey, OSError) as problem:
        key, known, why = b"", set[str](), str(problem)
    if not why:
        written = [sink["folder"] for sink in checkpoint.sinks]
        signed = [
            output
            for output in (*written, *unpublished_folders(checkpoint))
            if _sign_folder(key, output) in known
        ]
        outputs = Paths((), "You never started this checkpoint with this directory")
        outputs = outputs.also(folder, *signed, *(allowed.allowed or ()))
        return Ownership(ANYWHERE if allowed == ANYWHERE else allowed.also(folder), outputs)
    reason = f"Checkpoint {folder} is not known to be yours ({why}), and may read only itself"
    limit = Paths((), reason).also(folder, *(allowed.allowed or ()))
    _refuse_links(folder, limit)
    return Ownership(limit, limit)


def key_file() -> Path:
    """The file of the user's key."""
    given = os.environ.get("XDG_STATE_HOME", "")
    try:
        state = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    except RuntimeError:
        raise NoKey("there is no home directory for a key") from None
    return state / "incmrql" / "key"


def _key(*, create: bool = False) -> bytes:
    """The user's key; refused if others could read it or have written it."""
    path = key_file()
    try:
        if create and not path.exists():
            _create(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status, content = os.fstat(descriptor), file.read(_LENGTH + 1)
    except FileNotFoundError:
        raise NoKey(f"there is no key {path}") from None
    except OSError as cause:
        raise NoKey(f"the key {path} cannot be used: {cause.strerror}") from None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise NoKey(f"the key {path} is not private: it must be yours, with permissions 600")
    if len(content) != _LENGTH:
        raise NoKey(f"the key {path} is damaged: remove it, and run the script again")
    return content


def _create(path: Path) -> None:
    """Create a key, which appears with its content; a key that is there already stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_LENGTH))
            file.flush()
            os.fsync(descriptor)
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _sign_script(key: bytes, script: Mapping[str, Any]) -> str:
    return _signature(key, "script", json.dumps(script, sort_keys=True))


def _sign_folder(key: bytes, folder: str) -> str:
    return _signature(key, "output", folder)


def _signature(key: bytes, kind: str, text: str) -> str:
    content = f"{kind}\n{text}".encode(errors="surrogatepass")
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def _signatures(checkpoint: Path) -> set[str]:
    try:
        return set((checkpoint / SIGNATURES).read_text(encoding="ascii", errors="replace").split())
    except FileNotFoundError:
        return set()


def _refuse_links(folder: Path, limit: Paths) -> None:
    """Refuse a checkpoint with a symbolic link out of it, which would be read through."""
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(parent, name)
            if os.path.islink(path):
                limit.check(path)
