//! Blocks of a page and their classes. The word after `sh` or `console` is the class:
//!
//! - `run`: without a network, in a few seconds;
//! - `slow`: takes minutes, a real model, a network or packages of Python;
//! - a word of [`ELSEWHERE`]: needs what the tests do not have.
//!
//! Blocks of a page run in their order in one folder. `fails` after `run` or `slow` says that the commands have to fail.
//! What a page takes for granted is a block that readers do not see, `<!-- sh run` to `-->`.

use std::fmt::Write;

/// Why blocks are not run here, with the words of which a block of that class has one.
const ELSEWHERE: [(&str, &str, &[&str]); 9] = [
    ("docker", "Docker: `deploy/tests/run.py` has the same commands", &["docker"]),
    ("gpu", "a GPU, or NVIDIA's compiler", &["gpu", "cuda"]),
    ("grpcurl", "grpcurl: `deploy/tests/run.py page` makes the calls of docs/grpcurl.md", &["grpcurl"]),
    ("kubernetes", "Kubernetes", &["kubectl"]),
    ("machines", "other machines, by their names", &["http://gpu-1"]),
    ("slurm", "Slurm: `deploy/slurm/tests/run.py` has the same commands", &["sbatch", "slurm"]),
    (
        "tests",
        "this repository's own tests and measurements",
        &["cargo test", ".ci/", "bench/", "/check/run.py", "rlvr"],
    ),
    ("torch", "PyTorch and packages that need it, which are gigabytes", &["torch", "tinker", "trl"]),
    ("vllm", "vLLM", &["vllm", "VLLM"]),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Run,
    Slow,
    Elsewhere,
}

pub(crate) struct Block {
    line: usize,
    /// The words after the fence; empty texts where there are none.
    pub(crate) info: Vec<String>,
    pub(crate) text: String,
}

impl Block {
    fn is_typed(&self) -> bool {
        ["sh", "bash", "console"].contains(&self.info[0].as_str())
    }

    /// The class of a block of commands.
    ///
    /// # Errors
    /// What is wrong with the words after its fence.
    pub(crate) fn class(&self) -> Result<Class, String> {
        if !self.is_typed() {
            return Err("no commands".to_owned());
        }
        let words: Vec<&str> = self.info[1..].iter().map(String::as_str).collect();
        match words[..] {
            ["run"] | ["run", "fails"] => Ok(Class::Run),
            ["slow"] | ["slow", "fails"] => Ok(Class::Slow),
            [word] => {
                let (_, reason, signs) =
                    ELSEWHERE.iter().find(|(name, ..)| *name == word).ok_or_else(|| format!("{word} is no class"))?;
                let has_sign = signs.iter().any(|sign| self.text.contains(sign));
                if has_sign {
                    Ok(Class::Elsewhere)
                } else {
                    Err(format!("is marked {word}, which stands for {reason}, and has none of {signs:?}"))
                }
            }
            [] => Err("has no class".to_owned()),
            _ => Err(format!("{} is no class", words.join(" "))),
        }
    }

    /// What is typed: of a `console` block the lines behind a prompt, with those that continue them.
    fn typed(&self) -> String {
        if self.info[0] != "console" {
            return self.text.clone();
        }
        let mut goes_on = false;
        let typed = |line: &str| {
            let command = if goes_on { Some(line) } else { line.strip_prefix("$ ") };
            goes_on = command.is_some_and(|command| command.ends_with('\\'));
            command.map(|command| format!("{command}\n"))
        };
        self.text.lines().filter_map(typed).collect()
    }
}

/// The fenced blocks of a page and those in comments, in their order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut end: Option<String> = None;
    for (line, text) in (1..).zip(page.lines()) {
        let bare = text.trim();
        if let Some(fence) = &end {
            if bare == fence {
                end = None;
            } else {
                let block = found.last_mut().unwrap();
                writeln!(block.text, "{text}").unwrap();
            }
            continue;
        }
        let info = match bare.strip_prefix("<!-- sh ") {
            Some(words) if !bare.ends_with("-->") => {
                end = Some("-->".to_owned());
                format!("sh {words}")
            }
            _ if bare.starts_with("```") => {
                let words = bare.trim_start_matches('`');
                end = Some("`".repeat(bare.len() - words.len()));
                words.to_owned()
            }
            _ => continue,
        };
        let mut info: Vec<String> = info.split_whitespace().map(str::to_owned).collect();
        if info.is_empty() {
            info.push(String::new());
        }
        found.push(Block { line, info, text: String::new() });
    }
    found
}

/// The blocks of a page that have no class.
pub(crate) fn faults(name: &str, page: &str) -> Vec<String> {
    let typed = blocks(page).into_iter().filter(Block::is_typed);
    typed.filter_map(|block| Some(format!("{name}:{}: {}", block.line, block.class().err()?))).collect()
}

/// The blocks of these classes, as a script that says where it is.
pub(crate) fn script(name: &str, page: &str, classes: &[Class]) -> String {
    let mut script = String::new();
    for block in blocks(page) {
        if block.class().is_ok_and(|class| classes.contains(&class)) {
            let text = block.typed();
            writeln!(script, ": {name}:{}", block.line).unwrap();
            if block.info.last().is_some_and(|word| word == "fails") {
                writeln!(script, "if (\n{text}); then echo 'it does not fail' >&2; exit 1; fi").unwrap();
            } else {
                script += &text;
            }
        }
    }
    script
}

/// A block without a class, with an unknown one, and with a reason that it does not have.
pub(crate) fn planted() {
    let faults = |info: &str, text: &str| faults("page", &format!("```{info}\n{text}\n```\n")).len();
    for (info, text) in
        [("sh", "a"), ("console", "$ a"), ("sh ran", "a"), ("sh run slow", "a"), ("sh gpu", "a"), ("sh fails", "a")]
    {
        assert_eq!(faults(info, text), 1, "{info}");
    }
    for (info, text) in [("sh run", "a"), ("sh slow fails", "a"), ("sh gpu", "evenkeel gpu"), ("text", "a"), ("", "a")]
    {
        assert_eq!(faults(info, text), 0, "{info}");
    }
    let page = "<!-- sh run\na\n-->\n```console run\n$ b \\\n  c\nsaid\n```\n```sh slow\nd\n```\n";
    assert_eq!(script("page", page, &[Class::Run]), ": page:1\na\n: page:4\nb \\\n  c\n");
}
