"""Replaces `resource`, which programs use to request a deeper stack. They have it already, and no limit has any effect."""

import time
from collections import namedtuple

error = OSError
RLIM_INFINITY = -1
RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE = range(5)
RLIMIT_RSS, RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS = range(5, 10)
RUSAGE_SELF, RUSAGE_CHILDREN = 0, -1

_FIELDS = (
    "ru_utime ru_stime ru_maxrss ru_ixrss ru_idrss ru_isrss ru_minflt ru_majflt ru_nswap ru_inblock ru_oublock ru_msgsnd ru_msgrcv "
    "ru_nsignals ru_nvcsw ru_nivcsw"
)
struct_rusage = namedtuple("struct_rusage", _FIELDS)


def getrlimit(resource: int, /) -> tuple[int, int]:
    return RLIM_INFINITY, RLIM_INFINITY


def setrlimit(resource: int, limits: tuple[int, int], /) -> None:
    _soft, _hard = limits


def getrusage(who: int, /) -> struct_rusage:
    return struct_rusage(time.process_time(), 0.0, *[0] * 14)
