#!/usr/bin/env python3
"""Plants what kernel_usage.py has to find."""
import kernel_usage

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{name}' for 'sm_{sm}'
ptxas info    : Function properties for {name}
    {stack} bytes stack frame, {stores} bytes spill stores, 0 bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers
"""


def found(change=lambda sm, at: {}):
    """All kernels on all architectures, some of them changed."""
    logs = ""
    for sm in kernel_usage.MOST_REGISTERS:
        for at in range(kernel_usage.KERNELS):
            values = {"name": f"kernel_{at}", "sm": sm, "stack": 0, "stores": 0, "registers": 40} | change(sm, at)
            logs += LOG.format(**values)
    return list(kernel_usage.faults(kernel_usage.usage(logs)))


def only(sm, at, **values):
    return lambda this, number: values if (this, number) == (sm, at) else {}


assert found() == []
assert found(only(120, 3, registers=48)) == []
assert found(only(90, 3, registers=49)) == ["sm_90: kernel_3 takes 49 registers, allowed: 1 to 48"]
assert found(only(100, 7, stores=8)) == ["sm_100: kernel_7 keeps 8 bytes outside of its registers"]
assert found(only(80, 7, stack=16)) == ["sm_80: kernel_7 keeps 16 bytes outside of its registers"]
assert found(only(80, 0, name="kernel_1")) == [f"sm_80: {kernel_usage.KERNELS - 1} kernels, {kernel_usage.KERNELS} are expected"]
assert len(list(kernel_usage.faults({}))) == len(kernel_usage.MOST_REGISTERS)
