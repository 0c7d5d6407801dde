//! Blocks that are called Python but hold commands of a shell, a session of the interpreter, or nothing.

const COMMANDS: [&str; 22] = [
    "apt", "apt-get", "bash", "brew", "cat", "cd", "chmod", "conda", "curl", "echo", "git", "ls", "mkdir", "npm",
    "pip", "pip3", "poetry", "pytest", "python", "python3", "sh", "uv",
];

/// Whether a block has no line that could be part of a program.
pub(super) fn is_no_program(block: &str) -> bool {
    let mut lines = block.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    lines.peek().is_none_or(|first| first.starts_with(">>>")) || lines.all(is_command)
}

fn is_command(line: &str) -> bool {
    if line.starts_with("$ ") || line.starts_with("./") || line.starts_with(['!', '%']) {
        return true;
    }
    let mut words = line.split_whitespace();
    let named = words.next().is_some_and(|word| COMMANDS.contains(&word));
    // `python = 3` is Python.
    named
        && words
            .next()
            .is_some_and(|word| word.starts_with(|first: char| first.is_alphanumeric() || "-./<\"'".contains(first)))
}

#[cfg(test)]
mod tests {
    use super::is_no_program;

    #[test]
    fn commands_sessions_and_comments_are_no_programs() {
        for block in
            ["pip install x\n", "$ python a.py\n$ ls", "python3 main.py", ">>> f(3)\n6", "# your code here\n", "", "\n"]
        {
            assert!(is_no_program(block), "{block:?}");
        }
        for block in [
            "print(1)",
            "cd = 5",
            "python = 3\nprint(python)",
            "# pip install x\nimport x",
            "echo(3)",
            "x = 1\npip install x",
        ] {
            assert!(!is_no_program(block), "{block:?}");
        }
    }
}
