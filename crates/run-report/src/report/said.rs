//! Shows what a model said: an answer, or the turns of an episode.

use evenkeel_charts::{Html, number};
use evenkeel_run::{AnswerVerdict, RolloutTurn};

/// Messages of an episode that are shown.
const TURNS: usize = 12;

/// An answer, or the turns of an episode, where there are any.
pub(super) struct Said<'a> {
    pub(super) text: &'a str,
    pub(super) turns: &'a [RolloutTurn],
    /// The budget that ended the episode.
    pub(super) used_up: Option<&'a str>,
}

impl Said<'_> {
    /// Texts of at most that many characters. What the model did not say is `added`, in the words of the page.
    pub(super) fn to_html(&self, added: &str, most: usize) -> Html {
        if self.turns.is_empty() {
            return Html::element("pre", &[], cut(self.text, most));
        }
        let mut html = Html::new();
        for turn in self.turns.iter().take(TURNS) {
            let (class, origin) = if turn.trained { ("sampled", "sampled") } else { ("added", added) };
            let reward = turn.reward.map(|reward| format!(" · reward\u{a0}{}", number(reward))).unwrap_or_default();
            // Messages that were added together have their tokens at the last one, and prompts of agents none of their own.
            let tokens = if turn.tokens > 0 { format!("{}\u{a0}tokens, ", turn.tokens) } else { String::new() };
            let about = format!("{} · {tokens}{origin}{reward}", turn.role);
            let text = Html::element("pre", &[("class", class)], cut(&turn.text, most));
            html = html.with(Html::element("p", &[("class", "soft")], about)).with(text);
        }
        let more = self.turns.len().saturating_sub(TURNS);
        let more = (more > 0).then(|| format!("{more} more messages"));
        let used_up = self.used_up.map(|budget| format!("ended by its budget of {}", budget.replace('_', " ")));
        let last: Vec<_> = more.into_iter().chain(used_up).collect();
        if last.is_empty() { html } else { html.with(Html::element("p", &[("class", "soft")], last.join(" · "))) }
    }
}

/// A value with its name, in one piece.
pub(super) fn labelled(name: &str, value: f64) -> String {
    format!("{name}\u{a0}{}", number(value))
}

/// The raw reward where a verdict does not say it: neither 1 for a correct answer nor 0 for one that is not.
pub(super) fn partial_reward(verdict: &AnswerVerdict, reward: Option<f64>) -> String {
    let said = verdict.correct().map(|correct| f64::from(u8::from(correct)));
    let reward = reward.filter(|reward| Some(*reward) != said);
    reward.map_or_else(String::new, |reward| format!(" · reward\u{a0}{}", number(reward)))
}

/// The beginning of a text, with how much is missing.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} … ({} more characters)", &text[..end], text[end..].chars().count()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert!(cut(&"é".repeat(12), 7).ends_with("é … (5 more characters)"));
        assert_eq!(cut("short", 7), "short");
    }
}
