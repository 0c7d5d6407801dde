//! Random completions, as written by models or by attackers: in many scripts, whole or after a few characters were
//! deleted, repeated, moved or inserted. A case is determined by its number.
#![allow(dead_code, reason = "each test uses its own part")]

mod shapes;

use std::path::Path;

/// A pseudo-random generator, the same on every machine (xorshift).
pub(crate) struct Random(u64);

impl Random {
    /// A stream that splitmix64 seeds.
    pub(crate) fn new(seed: u64) -> Self {
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // Zero would stay zero.
        Self((z ^ (z >> 31)) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in this many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'t, T: ?Sized>(&mut self, choices: &[&'t T]) -> &'t T {
        choices[self.below(choices.len())]
    }
}

/// The number of inputs of a test: the variable, or the default.
pub(crate) fn count(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |count| count.parse().expect("a number of inputs"))
}

/// Writes random completions from pieces of text.
pub(crate) struct Writer {
    random: Random,
    /// Texts of data sets.
    texts: std::sync::Arc<Vec<String>>,
    /// The last marked answer.
    marked: String,
}

/// The texts of a data set: answers, gold answers, solutions and completions.
pub(crate) fn texts_of(file: &Path) -> Vec<String> {
    let rows = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut texts = Vec::new();
    for row in rows.lines().filter_map(|row| serde_json::from_str::<serde_json::Value>(row).ok()) {
        let fields = ["pred", "gold", "completion_tail", "solution", "answer", "final_answer"];
        texts.extend(fields.iter().filter_map(|field| row[field].as_str().map(str::to_owned)));
    }
    texts
}

impl Writer {
    /// The writer of a case.
    pub(crate) fn new(case: u64, texts: &std::sync::Arc<Vec<String>>) -> Self {
        Self { random: Random::new(case), texts: std::sync::Arc::clone(texts), marked: String::new() }
    }

    /// The writer's random numbers.
    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// A completion, whole or broken.
    pub(crate) fn completion(&mut self) -> String {
        let mut text = String::new();
        if !self.texts.is_empty() && self.random.once_in(3) {
            text.push_str(&self.texts[self.random.below(self.texts.len())]);
        }
        for _ in 0..self.random.below(5) {
            self.passage(&mut text);
        }
        self.ending(&mut text);
        if self.random.once_in(2) {
            self.passage(&mut text);
        }
        self.broken(text)
    }

    /// Text without markers and thinking tags, to surround a box.
    pub(crate) fn surroundings(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.random.below(4) {
            self.passage(&mut text);
        }
        let mut text = self.broken(text);
        for word in ["boxed", "framebox", "fbox", "think"] {
            while text.contains(word) {
                text = text.replace(word, "");
            }
        }
        text
    }

    /// An answer, plain or broken.
    pub(crate) fn answer(&mut self) -> String {
        let text = match self.random.below(8) {
            0 if !self.texts.is_empty() => self.texts[self.random.below(self.texts.len())].clone(),
            1 | 2 => (0..self.random.below(12)).map(|_| self.random.pick(shapes::PIECES)).collect(),
            3 => self.nested(),
            4 => self.expression(3),
            _ => self.random.pick(shapes::ANSWERS).to_owned(),
        };
        if self.random.once_in(2) { text } else { self.broken(text) }
    }

    /// A gold answer to the last completion: its own answer, or another one.
    pub(crate) fn gold(&mut self) -> String {
        if self.random.once_in(3) { self.marked.clone() } else { self.answer() }
    }

    /// A plain answer, without markup.
    pub(crate) fn plain_answer(&mut self) -> &'static str {
        self.random.pick(shapes::ANSWERS)
    }

    fn passage(&mut self, text: &mut String) {
        let piece = match self.random.below(6) {
            0 | 1 => self.random.pick(shapes::PROSE),
            2 => self.random.pick(shapes::FORMULAS),
            3 => self.random.pick(shapes::FRAMES),
            4 => self.random.pick(shapes::PIECES),
            _ => return text.push(self.character()),
        };
        text.push_str(piece);
        text.push_str(self.random.pick(&["", "", " ", "\n", "\n\n", "\r\n", "\u{3000}", "\t"]));
    }

    /// A lead-in and a marked answer.
    fn ending(&mut self, text: &mut String) {
        for _ in 0..1 + self.random.below(3) {
            text.push_str(self.random.pick(shapes::LEADS));
            let (before, after) = shapes::MARKS[self.random.below(shapes::MARKS.len())];
            text.push_str(before);
            self.marked = self.answer();
            text.push_str(&self.marked);
            text.push_str(after);
            text.push_str(self.random.pick(&["", "", ".", "。", ", ", " and ", " или ", "$", "\n"]));
        }
    }

    /// An expression of extreme numbers.
    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.once_in(4) {
            return self.random.pick(shapes::NUMBERS).to_owned();
        }
        let form = self.random.pick(shapes::FORMS);
        let mut text = String::with_capacity(64);
        for (index, piece) in form.split('@').enumerate() {
            if index > 0 {
                text.push_str(&self.expression(depth - 1));
            }
            text.push_str(piece);
        }
        text
    }

    /// A deeply nested bracket, command or operator.
    fn nested(&mut self) -> String {
        let (open, inner, close) = shapes::NESTS[self.random.below(shapes::NESTS.len())];
        let depth = 1 << self.random.below(10);
        let closed = if self.random.once_in(4) { self.random.below(depth + 1) } else { depth };
        [open.repeat(depth).as_str(), inner, close.repeat(closed).as_str()].concat()
    }

    /// Any character, hostile ones included.
    fn character(&mut self) -> char {
        let any = match self.random.below(4) {
            0 | 1 => return shapes::CHARACTERS[self.random.below(shapes::CHARACTERS.len())],
            2 => self.random.below(0x3000),
            _ => self.random.below(0x11_0000),
        };
        char::from_u32(any as u32).unwrap_or('\u{fffd}')
    }

    /// The text after a few random edits, or unchanged.
    fn broken(&mut self, text: String) -> String {
        let edits = if self.random.once_in(2) { 0 } else { 1 + self.random.below(4) };
        let mut characters: Vec<char> = text.chars().collect();
        for _ in 0..edits {
            let length = characters.len();
            let at = self.random.below(length + 1);
            let until = self.random.below(length + 1);
            let begin = at.min(until);
            let end = at.max(until).min(at.min(until) + 40);
            match self.random.below(7) {
                0 => characters.truncate(at),
                1 => drop(characters.drain(..begin)),
                2 => drop(characters.drain(begin..end)),
                3 => characters.insert(at, self.character()),
                4 => drop(characters.splice(at..at, self.random.pick(shapes::PIECES).chars())),
                5 => characters[begin..end].reverse(),
                _ => {
                    let doubled: Vec<char> = characters[begin..end].repeat(1 + self.random.below(3));
                    drop(characters.splice(begin..begin, doubled));
                }
            }
        }
        characters.into_iter().collect()
    }
}
