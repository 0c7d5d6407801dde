//! What the words after an opening fence say of its block.

/// The language of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// Python, by any of its usual names.
    Python,
    /// No language, or an unknown one.
    Unknown,
    /// Markdown, which may have blocks of its own.
    Markdown,
    /// Another language, or no program at all: an output, a command, a transcript of the interpreter.
    Other(String),
}

const PYTHON: [&str; 6] = ["py", "python", "pypy", "cpython", "python-code", "tool_code"];
const MARKDOWN: [&str; 3] = ["markdown", "md", "mdx"];

/// Tags that name something else than a Python program.
#[rustfmt::skip]
const OTHER: [&str; 98] = [
    "asm", "assembly", "awk", "bash", "bat", "batch", "c", "c#", "c++", "cc", "clojure", "cmd", "console", "cpp", "cs",
    "csharp", "css", "csv", "cxx", "d", "dart", "diff", "dockerfile", "elixir", "elm", "erlang", "error", "example",
    "f#", "fortran", "fsharp", "go", "golang", "graphql", "groovy", "h", "haskell", "hs", "html", "in", "ini", "input",
    "io", "java", "javascript", "jl", "js", "json", "jsonl", "jsx", "julia", "kotlin", "kt", "latex", "lisp", "log",
    "lua", "makefile", "math", "matlab", "mermaid", "none", "ocaml", "out", "output", "pascal", "patch", "perl", "php",
    "plain", "plaintext", "powershell", "ps1", "pseudo", "pseudocode", "pycon", "python-repl", "r", "rb", "result",
    "ruby", "rust", "rs", "scala", "scheme", "sh", "shell", "sql", "stderr", "stdin", "stdout", "swift", "tex", "text",
    "toml", "ts", "txt", "typescript",
];
const MORE_OTHER: [&str; 10] =
    ["terminal", "traceback", "vb", "xml", "yaml", "yml", "zig", "zsh", "sh-session", "shell-session"];

/// The language that the words after a fence name: `python`, `Python 3`, `{.python .numberLines}`, `py title="a.py"`,
/// `main.py`.
pub(super) fn language(info: &str) -> Language {
    let name = name(info);
    if name.is_empty() {
        return Language::Unknown;
    }
    // Python with its version: `python3`, `python3.12`, `py3`.
    let unversioned = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    let named = |names: &[&str]| names.contains(&name.as_str());
    if PYTHON.contains(&unversioned) || name.ends_with(".py") {
        Language::Python
    } else if named(&MARKDOWN) {
        Language::Markdown
    } else if named(&OTHER) || named(&MORE_OTHER) {
        Language::Other(name)
    } else {
        Language::Unknown
    }
}

/// Whether words after a fence are a known name of a language and nothing else.
pub(super) fn is_tag(info: &str) -> bool {
    !info.is_empty() && !info.contains(char::is_whitespace) && language(info) != Language::Unknown
}

/// The first word, in lower case, without the brackets and prefixes of other dialects.
fn name(info: &str) -> String {
    let info =
        info.trim_start_matches(|character: char| character.is_whitespace() || matches!(character, '{' | '.' | '['));
    let end = info.find(|character: char| {
        character.is_whitespace() || matches!(character, '{' | '}' | ',' | ';' | ':' | '=' | '(' | '[' | ']' | '|')
    });
    let name = info[..end.unwrap_or(info.len())].to_lowercase();
    let prefixes = ["language-", "lang-", "code-"];
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).map(str::to_owned).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_has_many_names() {
        for info in [
            "python",
            "py",
            "Python",
            "PYTHON",
            "python3",
            "Python3",
            "py3",
            "python3.12",
            "Python 3",
            "pypy3",
            "{python}",
            "{.python}",
            "{.python .numberLines}",
            "python title=\"a.py\"",
            "python{1,3}",
            "python,linenos",
            "python:main.py",
            "main.py",
            "language-python",
            " python ",
            "python\r",
            "python (solution)",
        ] {
            assert_eq!(language(info), Language::Python, "{info}");
        }
    }

    #[test]
    fn other_languages_outputs_and_transcripts_are_not_python() {
        for info in ["cpp", "C++", "java", "text", "output", "bash", "Output:", "pycon", "json", "c", "r", "stdout"] {
            assert!(matches!(language(info), Language::Other(_)), "{info}");
        }
        assert_eq!(language("markdown"), Language::Markdown);
    }

    #[test]
    fn what_is_not_a_known_name_says_nothing() {
        for info in ["", "  ", "solution", "This is it.", "code", "pythonic"] {
            assert_eq!(language(info), Language::Unknown, "{info}");
        }
        assert!(is_tag("python") && is_tag("cpp") && !is_tag("solution") && !is_tag("python and more") && !is_tag(""));
    }
}
