//! Attacks on what is outside: files, network, processes, the interpreter itself, and the programs that come later.

pub(crate) const PROGRAMS: &[(&str, &str)] = &[
    ("reads the password file", "print(open('/etc/passwd').read())"),
    ("reads its own environment", "print(open('/proc/self/environ').read())"),
    ("lists the root", "import os\nprint(os.listdir('/'))"),
    ("walks up", "print(open('../../../../etc/hostname').read())"),
    ("asks for secrets in the environment", "import os\nassert os.environ, 'empty'\nprint(os.environ)"),
    ("writes a file for the next", "open('/tmp/left', 'w').write('x')"),
    ("makes a sparse file", "f = open('big', 'wb')\nf.seek(2**40)\nf.write(b'x')"),
    ("makes many files", "for i in range(10**6): open(f'{i}', 'w')"),
    ("makes a link out", "import os\nos.symlink('/etc/passwd', 'x')\nprint(open('x').read())"),
    ("forks", "import os\nwhile True: os.fork()"),
    ("runs a shell", "import os\nprint(os.system('id'))"),
    ("runs a process", "import subprocess\nprint(subprocess.run(['id'], capture_output=True).stdout)"),
    ("runs processes by multiprocessing", "from multiprocessing import Pool\nprint(Pool(4).map(abs, [1]))"),
    ("kills its parent", "import os\nos.kill(os.getppid(), 9)"),
    ("connects out", "import socket\nsocket.create_connection(('127.0.0.1', 80), timeout=1)"),
    ("listens", "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()"),
    ("resolves a name", "import socket\nprint(socket.getaddrinfo('localhost', 80))"),
    ("fetches an address", "import urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1/').read())"),
    ("writes to address zero", "import ctypes\nctypes.string_at(0)"),
    ("aborts", "import os\nos.abort()"),
    ("crashes the interpreter", "exec((lambda: 0).__code__.replace(co_code=b'\\xff' * 64, co_stacksize=1))"),
    (
        "crashes by a forged object",
        "import gc\nfor x in gc.get_objects():\n    try: x.clear()\n    except Exception: pass",
    ),
    ("closes the output", "import os\nos.close(1)\nprint('x')"),
    ("closes the output object", "import sys\nsys.stdout.close()\nprint('x')"),
    ("has no output", "import sys\nsys.stdout = None\nprint('x')"),
    ("closes every descriptor", "import os\nfor i in range(100):\n    try: os.close(i)\n    except OSError: pass"),
    (
        "writes to closed descriptors",
        "import os\nfor i in range(3, 1000):\n    try: os.write(i, b'x')\n    except OSError: pass",
    ),
    ("reads a path without an end", "open('x' * 10**7)"),
    ("reads a path with a zero byte", "open('a\\0b')"),
    (
        "leaves an attribute",
        "import sys, builtins, math\nsys.left = builtins.left = math.left = 1\nsum = print = len = None",
    ),
    (
        "breaks the library for the next",
        "import sys, json\nsys.modules.clear()\njson.loads = None\nsys.path_hooks.clear()",
    ),
    (
        "breaks the builtins for the next",
        "import builtins\nbuiltins.print = builtins.open = builtins.sum = builtins.map = None",
    ),
    ("leaves the collector broken", "import gc\ngc.disable()\ngc.unfreeze()\ngc.set_threshold(1)\ngc.collect()"),
    (
        "changes an integer",
        "import sys\nsys.setswitchinterval(1e-9)\nsys.set_int_max_str_digits(0)\nsys.setrecursionlimit(10**9)\n\
        sys.intern('left')",
    ),
    (
        "traces everything",
        "import sys\ndef trace(*a): return trace\nsys.settrace(trace)\nsys.setprofile(trace)\nwhile True: x = 1",
    ),
    (
        "asks about the host",
        "import platform, os, sys\n\
        print(platform.uname(), os.getuid() if hasattr(os, 'getuid') else 0, sys.executable)",
    ),
    ("has a zero byte in its source", "print(1)\0"),
    ("has invalid text in its source", "# -*- coding: ascii -*-\nprint('é')"),
    ("has an unknown coding", "# -*- coding: no-such-coding -*-\nprint(1)"),
];
