"""What an error of the server, or of the way to it, means for the caller: the one place that reads error codes."""

from __future__ import annotations

from redis import exceptions as errors
from redis.exceptions import RedisError

from ...exceptions import PayloadInvalid, StateStoreError, StoreMisconfigured, StoreUnavailable


class Broken(Exception):
    """The way to the server is broken; the reason is an error of redis-py."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(type(reason).__name__)
        self.reason = reason


class Unreached(Broken):
    """No connection could be had: nothing was sent."""


class Refused(Unreached):
    """The server answered the handshake with an error, which is the reason: nothing was sent."""


class Lost(Broken):
    """The connection broke after something was sent: whether it was done is not known."""


_LATER = {
    "BUSY": "a script of somebody else runs for too long",
    "CLUSTERDOWN": "the cluster does not serve all of its slots",
    "LOADING": "it is still loading its data",
    "MASTERDOWN": "it is a replica that lost its primary",
    "MISCONF": "it cannot write its data to disk and refuses to go on: look at its log",
    "NOREPLICAS": "fewer replicas follow it than min-replicas-to-write demands",
    "OOM": "its memory is full: raise maxmemory, or give the state a server of its own",
    "READONLY": "it is a replica, which takes no writes: name the primary",
    "TRYAGAIN": "the slot is on its way to another node",
    "UNBLOCKED": "it changed its role meanwhile",
}
_SETTINGS = {
    "NOAUTH": "it asks for a password",
    "NOPERM": "the user may not do that: allow it the keys under our prefix, and the commands",
    "WRONGPASS": "it refuses the user name or the password",
}


# redis-py takes these first words away, and before version 8 does not keep them.
_CODES: tuple[tuple[type[RedisError], str], ...] = (
    (errors.MasterDownError, "MASTERDOWN"),
    (errors.ClusterDownError, "CLUSTERDOWN"),
    (errors.BusyLoadingError, "LOADING"),
    (errors.OutOfMemoryError, "OOM"),
    (errors.ReadOnlyError, "READONLY"),
    (errors.TryAgainError, "TRYAGAIN"),
    (errors.NoPermissionError, "NOPERM"),
)


def code_of(error: RedisError) -> str:
    """Return the first word of an error reply."""
    if code := getattr(error, "status_code", None):
        return str(code)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    if isinstance(error, errors.AuthenticationError):
        return "NOAUTH" if "required" in str(error) else "WRONGPASS"
    first = str(error).split(" ", 1)[0]
    return first if first.isupper() else "ERR"


def told(error: RedisError, where: str) -> StateStoreError:
    """Return our error for a reply that is one. Nothing was done, and what the server says of it is not shown.

    The text of a reply may hold parts of what was sent.
    """
    code = code_of(error)
    if code in _LATER:
        return StoreUnavailable(f"{where} is not available ({code}): {_LATER[code]}")
    if code in _SETTINGS:
        return StoreMisconfigured(f"{where} refuses us ({code}): {_SETTINGS[code]}")
    if code == "WRONGTYPE":
        return PayloadInvalid(f"{where} holds a key of ours that was not written by this package ({code})")
    if "unknown command" in str(error).lower():
        return StoreMisconfigured(f"{where} does not know a command: it must be Redis 6.2 or later, or Valkey")
    return StateStoreError(f"{where} answered with an error ({code})")
