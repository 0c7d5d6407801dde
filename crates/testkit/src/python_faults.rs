//! What a Python file may do to the process that calls it, on purpose or not.

/// Imports and helpers that the statements of [`PYTHON_FAULTS`] use.
pub const PYTHON_FAULTS_NEED: &str = r#"
import ctypes, multiprocessing, os, threading, time

def attempt(call, *arguments):
    try:
        return call(*arguments)
    except OSError:
        return None

def say_in_c(text):
    libc = ctypes.CDLL(None)
    libc.puts(text)
    libc.fflush(None)
"#;

/// Names of faults, and the statement of a function that commits each: none may give a call the answer to another one.
pub const PYTHON_FAULTS: [(&str, &str); 8] = [
    ("a fork that returns", "if os.fork() == 0: return 0.99"),
    ("a fork that raises", "if os.fork() == 0: raise SystemExit(3)"),
    ("a pool of processes", "multiprocessing.get_context('fork').Pool(2).map(abs, [1, 2])"),
    ("a line that is printed", "print('[{\"values\": {\"reward\": 0.99}}]', flush=True)"),
    ("a line that is printed in C", "say_in_c(b'[{\"values\": {\"reward\": 0.99}}]')"),
    ("a write to every descriptor", "[attempt(os.write, fd, b'0.99\\n') for fd in range(1, 200)]"),
    ("a child that reads every descriptor", "if os.fork() == 0: [attempt(os.read, fd, 1 << 16) for fd in range(200)]"),
    ("a late thread", "threading.Thread(target=lambda: [time.sleep(0.01), print('late')]).start()"),
];
