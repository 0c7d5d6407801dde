"""The package's exceptions. Each is an `EvenkeelError`."""


class EvenkeelError(Exception):
    """The base of all exceptions of this package."""


class ArgumentTypeError(EvenkeelError, TypeError):
    """An argument has a type that is not allowed."""


class ArgumentValueError(EvenkeelError, ValueError):
    """An argument has a value that is not allowed."""


class InvalidVerdict(EvenkeelError):
    """A sample could not be judged, through no fault of its own; or an invalid verdict was used as if it were right or wrong."""


class InternalError(EvenkeelError):
    """A fault of this package."""


class MissingPackage(EvenkeelError, ImportError):
    """Another package is needed for this and is not installed."""


class UnsupportedVersion(EvenkeelError):
    """A trainer's version was not tested with this package."""


class UnsupportedSetting(EvenkeelError, ValueError):
    """A setting of a trainer with which the result would not be what was asked for."""


class ServiceError(EvenkeelError):
    """A reward service refused a call, or answered what it was not asked."""


class ClientClosed(EvenkeelError):
    """A client was used after it was closed."""


class PoolClosed(EvenkeelError):
    """A pool was used after it was closed, or closed while it was used."""


class PoolAfterFork(EvenkeelError):
    """A pool was used by a process that was forked after it was made: its threads are in the parent only."""


class PoolFailed(EvenkeelError, OSError):
    """The system has no more threads or file descriptors for a pool."""


class InterpreterMissing(EvenkeelError):
    """The sandbox's interpreter, or the program that runs it, is not there and cannot be made."""
