//! Differences between the guest and a native interpreter, mentioned in the detail when a program runs into one.

/// Messages of exceptions that only a 32-bit interpreter or this guest raises, each with an explanation.
const CAVEATS: [(&str, &str); 10] = [
    ("Python int too large to convert to C ssize_t", "a 32-bit interpreter: lengths and indexes end at 2**31 - 1"),
    ("cannot fit 'int' into an index-sized integer", "a 32-bit interpreter: lengths and indexes end at 2**31 - 1"),
    ("Python int too large to convert to C long", "a 32-bit interpreter: C's long has 32 bits"),
    ("int too large to convert to C", "a 32-bit interpreter: C's long has 32 bits"),
    ("must be None or an integer: 0 <= x <= sys.maxsize", "a 32-bit interpreter: lengths and indexes end at 2**31 - 1"),
    ("argument out of range", "a 32-bit interpreter: C's long has 32 bits"),
    ("No time zone found with key", "the sandbox has no time zone data"),
    (" is not in the sandbox, which has no foreign functions", "only the integers of ctypes are available"),
    ("No module named 'numpy'", "numpy is not in the sandbox"),
    ("No module named 'scipy'", "scipy is not in the sandbox"),
];

const NO_MODULE: &str = "No module named '";
const MODULE: &str = "the sandbox has the standard library without the parts that need a system (processes, sockets), \
    and no third-party packages";

/// Modules that a native interpreter has, or that programs expect to be installed. Importing any other missing module
/// is the program's own mistake.
const MISSING: [&str; 38] = [
    "_bz2",
    "_curses",
    "_dbm",
    "_gdbm",
    "_lzma",
    "_multiprocessing",
    "_posixshmem",
    "_posixsubprocess",
    "_ssl",
    "_tkinter",
    "_uuid",
    "_zstd",
    "curses",
    "fcntl",
    "grp",
    "idlelib",
    "ossaudiodev",
    "pty",
    "pwd",
    "readline",
    "spwd",
    "ssl",
    "syslog",
    "termios",
    "tkinter",
    "tty",
    "turtle",
    "gmpy2",
    "more_itertools",
    "networkx",
    "numba",
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
    "sortedcontainers",
    "sympy",
    "torch",
];

/// Adds the explanation to the message of an exception, and tells whether a native process would not have raised it.
pub(super) fn annotate(text: &str) -> (String, bool) {
    if let Some((_, caveat)) = CAVEATS.iter().find(|(message, _)| text.contains(message)) {
        return (format!("{text} [sandbox: {caveat}]"), true);
    }
    match text.split_once(NO_MODULE) {
        None => (text.to_owned(), false),
        Some((_, rest)) => {
            let name = rest.split(['\'', '.']).next().unwrap_or_default();
            (format!("{text} [sandbox: {MODULE}]"), MISSING.contains(&name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::annotate;

    #[test]
    fn limitations_of_the_sandbox_are_distinguished_from_mistakes() {
        for unsupported in [
            "OverflowError: Python int too large to convert to C ssize_t",
            "ModuleNotFoundError: No module named 'numpy'",
            "ModuleNotFoundError: No module named 'scipy.sparse'",
            "ModuleNotFoundError: No module named '_bz2'",
            "ZoneInfoNotFoundError: 'No time zone found with key Europe/Berlin'",
        ] {
            let (text, unsupported_here) = annotate(unsupported);
            assert!(unsupported_here && text.starts_with(unsupported) && text.ends_with(']'), "{text}");
        }
        for own in ["ModuleNotFoundError: No module named 'my_helpers'", "ZeroDivisionError: division by zero"] {
            assert!(!annotate(own).1, "{own}");
        }
    }
}
