//! Where the guest differs from the interpreter that a program was written for, told when a program runs into it.

/// Texts of exceptions that only a 32-bit interpreter raises at such numbers, or only this guest.
const CAVEATS: [(&str, &str); 9] = [
    ("Python int too large to convert to C ssize_t", "a 32-bit interpreter: lengths and indexes end at 2**31 - 1"),
    ("cannot fit 'int' into an index-sized integer", "a 32-bit interpreter: lengths and indexes end at 2**31 - 1"),
    ("Python int too large to convert to C long", "a 32-bit interpreter: C's long has 32 bits"),
    ("int too large to convert to C", "a 32-bit interpreter: C's long has 32 bits"),
    ("must be None or an integer: 0 <= x <= sys.maxsize", "a 32-bit interpreter: lengths and indexes end at 2**31 - 1"),
    ("argument out of range", "a 32-bit interpreter: C's long has 32 bits"),
    ("No module named 'numpy'", "numpy is not in the sandbox"),
    ("No module named 'scipy'", "scipy is not in the sandbox"),
    (
        "No module named",
        "the sandbox has the standard library without what needs a system (processes, sockets, C extensions of others)",
    ),
];

/// An exception's text, with what to know about it.
pub(super) fn annotate(text: &str) -> String {
    match CAVEATS.iter().find(|(said, _)| text.contains(said)) {
        Some((_, caveat)) => format!("{text} [sandbox: {caveat}]"),
        None => text.to_owned(),
    }
}
