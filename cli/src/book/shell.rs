//! Shell text as the simple commands in it: enough of bash for what a documentation has people type.

use std::iter::Peekable;
use std::str::Chars;

/// The commands of a text, each as its words. Redirections, comments and the texts of here-documents are left out;
/// `$NAME` and `$(...)` stay as they are written.
///
/// # Errors
/// What is never closed.
pub(super) fn commands(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut reader =
        ShellReader { chars: text.chars().peekable(), commands: Vec::new(), words: Vec::new(), heredocs: Vec::new() };
    reader.read()?;
    Ok(reader.commands)
}

struct ShellReader<'a> {
    chars: Peekable<Chars<'a>>,
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    /// The words that end here-documents which begin after this line.
    heredocs: Vec<String>,
}

impl ShellReader<'_> {
    fn read(&mut self) -> Result<(), String> {
        while let Some(&c) = self.chars.peek() {
            match c {
                '\n' => {
                    self.chars.next();
                    self.end();
                    self.skip_heredocs()?;
                }
                c if c.is_whitespace() => {
                    self.chars.next();
                }
                // A line that goes on.
                '\\' if self.chars.clone().nth(1) == Some('\n') => {
                    self.chars.next();
                    self.chars.next();
                }
                '#' => while self.chars.next_if(|&c| c != '\n').is_some() {},
                '|' | '&' | ';' | '(' | ')' => {
                    self.chars.next();
                    self.end();
                }
                '<' | '>' => self.redirection()?,
                _ => {
                    let word = self.word()?;
                    // `2>` is a redirection of that descriptor.
                    let is_descriptor = word.len() == 1 && word.chars().all(|c| c.is_ascii_digit());
                    if !(is_descriptor && matches!(self.chars.peek(), Some('<' | '>'))) {
                        self.words.push(word);
                    }
                }
            }
        }
        self.end();
        if self.heredocs.is_empty() { Ok(()) } else { Err(format!("{} never comes", self.heredocs[0])) }
    }

    fn end(&mut self) {
        if !self.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.words));
        }
    }

    fn redirection(&mut self) -> Result<(), String> {
        let mut operator = String::new();
        while let Some(c) = self.chars.next_if(|c| matches!(c, '<' | '>' | '&')) {
            operator.push(c);
        }
        while self.chars.next_if(|&c| c == ' ').is_some() {}
        let target = self.word()?;
        if target.is_empty() {
            return Err(format!("{operator} leads nowhere"));
        }
        if operator == "<<" {
            self.heredocs.push(target);
        }
        Ok(())
    }

    fn skip_heredocs(&mut self) -> Result<(), String> {
        for end in std::mem::take(&mut self.heredocs) {
            loop {
                let mut line = String::new();
                while let Some(c) = self.chars.next_if(|&c| c != '\n') {
                    line.push(c);
                }
                if line == end {
                    break;
                }
                if self.chars.next().is_none() {
                    return Err(format!("{end} never comes"));
                }
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<String, String> {
        let mut word = String::new();
        while let Some(&c) = self.chars.peek() {
            match c {
                c if c.is_whitespace() || matches!(c, '|' | '&' | ';' | '(' | ')' | '<' | '>') => break,
                '\\' => {
                    self.chars.next();
                    match self.chars.next() {
                        Some('\n') | None => {}
                        Some(c) => word.push(c),
                    }
                }
                '\'' => {
                    self.chars.next();
                    self.until('\'', false, &mut word)?;
                }
                '"' => {
                    self.chars.next();
                    self.until('"', true, &mut word)?;
                }
                '$' => {
                    word.push(c);
                    self.chars.next();
                    if self.chars.next_if_eq(&'(').is_some() {
                        word.push('(');
                        self.until(')', false, &mut word)?;
                        word.push(')');
                    }
                }
                c => {
                    word.push(c);
                    self.chars.next();
                }
            }
        }
        Ok(word)
    }

    fn until(&mut self, end: char, escapes: bool, word: &mut String) -> Result<(), String> {
        loop {
            match self.chars.next() {
                None => return Err(format!("{end} never comes")),
                Some(c) if c == end => return Ok(()),
                Some('\\') if escapes => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                    Some(c) => word.extend(['\\', c]),
                },
                Some(c) => word.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::commands;

    fn words(text: &str) -> Vec<Vec<String>> {
        commands(text).unwrap()
    }

    #[test]
    fn words_are_those_of_bash() {
        let text = "A=1 b 'c d' \"e \\\" f\" g\\ h # not this\nk > out 2> err && l | m; n &\n";
        let wanted = [&["A=1", "b", "c d", "e \" f", "g h"][..], &["k"], &["l"], &["m"], &["n"]];
        assert_eq!(words(text), wanted);
        assert_eq!(words("a \\\n  --b $(c d)/x"), [["a", "--b", "$(c d)/x"]]);
    }

    #[test]
    fn a_here_document_is_no_command() {
        assert_eq!(words("python3 - <<'END'\nimport json\nEND\nb"), [&["python3", "-"][..], &["b"]]);
    }

    #[test]
    fn what_is_never_closed_is_an_error() {
        for text in ["a 'b", "a \"b", "a <<END\nb\n", "a $(b"] {
            assert!(commands(text).is_err(), "{text}");
        }
    }
}
