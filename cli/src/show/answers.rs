//! One answer as text.

use std::io::{self, Write};

use evenkeel_proto::shown::multi_line;
use evenkeel_run::{EvaluationAnswer, RolloutTurn};

/// Prints answers one after the other; a prompt once for all samples of its problem.
#[derive(Default)]
pub(super) struct Shown {
    problem: Option<u64>,
}

impl Shown {
    pub(super) fn answer(&mut self, answer: &EvaluationAnswer, out: &mut impl Write) -> io::Result<()> {
        if self.problem.replace(answer.index) != Some(answer.index) {
            let benchmark = multi_line(&answer.benchmark);
            let problem = multi_line(&answer.problem);
            writeln!(out, "════ {benchmark} · problem {} · {problem}\n", answer.index + 1)?;
            section(out, "prompt", &answer.prompt)?;
        }
        writeln!(
            out,
            "──── sample {} · {} · {}\n",
            answer.sample + 1,
            multi_line(answer.verdict.label()),
            length(answer.token_ids.len(), answer.is_truncated())
        )?;
        said(out, &answer.text, &answer.turns, "added")?;
        let mut line = |name: &str, value: &str| writeln!(out, "{name:<9} {}", multi_line(value));
        if let Some(extracted) = &answer.extracted {
            line("final", one_line(extracted))?;
        }
        if let Some(canonical) = answer.answer.as_ref().filter(|canonical| answer.extracted.as_ref() != Some(canonical))
        {
            line("read as", canonical)?;
        }
        for gold in &answer.gold {
            line("gold", gold)?;
        }
        if let Some(parts) = parts(answer.telling_parts()) {
            line("parts", &parts)?;
        }
        let score = answer.score.map_or_else(|| "no score".to_owned(), |score| format!("score {}", short(score)));
        line("verdict", &format!("{}, {score}", answer.verdict.label()))?;
        let reason = match answer.detail.as_str() {
            "" => answer.reason.clone(),
            detail => format!("{}: {detail}", answer.reason),
        };
        line("reason", &reason)?;
        if let Some(used_up) = &answer.used_up {
            line("ended by", &ended_by(used_up))?;
        }
        writeln!(out)
    }
}

/// An answer, or the turns of an episode; what the model did not say is `added`, in words.
pub(super) fn said(out: &mut impl Write, text: &str, turns: &[RolloutTurn], added: &str) -> io::Result<()> {
    for turn in turns {
        let origin = if turn.trained { "sampled" } else { added };
        let reward = turn.reward.map(|reward| format!(" · reward {}", short(reward))).unwrap_or_default();
        // Messages that were added together have their tokens at the last one, and prompts of agents none of their own.
        let tokens = if turn.tokens > 0 { format!("{} tokens, ", turn.tokens) } else { String::new() };
        section(out, &format!("{} · {tokens}{origin}{reward}", turn.role), &turn.text)?;
    }
    if turns.is_empty() { section(out, "answer", text) } else { Ok(()) }
}

/// Which budget ended an episode.
pub(super) fn ended_by(used_up: &str) -> String {
    format!("its budget of {}", used_up.replace('_', " "))
}

/// The parts of a reward with their names; `None` where there are none.
pub(super) fn parts<'a>(parts: impl Iterator<Item = (&'a str, f64)>) -> Option<String> {
    let parts: Vec<_> = parts.map(|(name, value)| format!("{name} {}", short(value))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Four digits that say something.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if (1e-3..1e6).contains(&size) => {
            format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => format!("{value:.2e}"),
    }
}

/// A program is shown as part of its answer; its first line says which one was judged.
pub(super) fn one_line(extracted: &str) -> &str {
    extracted.trim().lines().next().unwrap_or_default()
}

pub(super) fn length(tokens: usize, is_truncated: bool) -> String {
    let tokens = match tokens {
        1 => "1 token".to_owned(),
        tokens => format!("{tokens} tokens"),
    };
    if is_truncated { format!("cut off after {tokens}") } else { tokens }
}

/// A text of several lines, each indented, so that none can pass for a heading.
pub(super) fn section(out: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "{name}")?;
    for line in with_visible_end(text).lines() {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)
}

/// A text for a terminal. White space at its end, which is part of a prompt, is shown by marks.
pub(crate) fn with_visible_end(text: &str) -> String {
    let end = text.trim_end();
    multi_line(end).chars().chain(text[end.len()..].chars().map(mark)).collect()
}

/// What stands for white space.
fn mark(space: char) -> char {
    match space {
        '\n' => '⏎',
        '\t' => '⇥',
        _ => '␣',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_at_the_end_of_a_text_is_visible() {
        let shown = |text: &str| {
            let mut out = Vec::new();
            section(&mut out, "prompt", text).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown("1+1=\n"), "prompt\n  1+1=⏎\n\n");
        assert_eq!(shown("a\nb \t"), "prompt\n  a\n  b␣⇥\n\n");
        assert_eq!(shown("a"), "prompt\n  a\n\n");
    }

    #[test]
    fn the_parts_of_a_weighted_reward_stand_beside_the_verdict() {
        let answer: EvaluationAnswer = serde_json::from_value(serde_json::json!({
            "benchmark": "sums", "problem": "p0", "index": 0, "sample": 0, "prompt": "1+1=", "text": "2",
            "token_ids": [7], "finish_reason": "stop", "verdict": "correct", "reason": "", "score": 1.0,
            "components": {"correctness": 1.0, "short": 0.25},
        }))
        .unwrap();
        let shown = |answer: &EvaluationAnswer| {
            let mut out = Vec::new();
            Shown::default().answer(answer, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(shown(&answer).contains("parts     short 0.25\nverdict   correct, score 1\n"), "{}", shown(&answer));
        assert!(!shown(&EvaluationAnswer { components: Default::default(), ..answer }).contains("parts"));
    }
}
