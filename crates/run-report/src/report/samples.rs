//! Answers of evaluations that are worth reading: the longest and the shortest, those whose verdict changed since the
//! evaluation before, and those to the most uncertain problems.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_charts::Html;
use evenkeel_run::{AnswerReader, EvaluationAnswer, MetricsLine, evaluation_folder, list_answers};

use super::said::{Said, cut, labelled, partial_reward};

/// Answers of each kind.
const EACH: usize = 3;
/// Maximum number of responses of an evaluation that are read; in a larger one the rest is skipped.
const MAX_ANSWERS: usize = 50_000;
/// Characters of a prompt or an answer that are shown.
const MAX_CHARACTERS: usize = 3_000;

/// Answers that are worth reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gallery {
    /// GRPO steps before the evaluation that they are from.
    step: u64,
    /// The evaluation before it, where it was of the same problems.
    before: Option<u64>,
    longest: Vec<EvaluationAnswer>,
    shortest: Vec<EvaluationAnswer>,
    /// Answers whose verdict changed, each with the verdict before.
    changed: Vec<(String, EvaluationAnswer)>,
    /// A correct answer and one that is not to a problem, with the share of correct ones.
    uncertain: Vec<(f64, EvaluationAnswer)>,
    invalid: Vec<EvaluationAnswer>,
}

/// Which answer it is: benchmark, problem, sample.
type Key = (String, u64, u32);

impl Gallery {
    /// Reads the last evaluation and the one before. An evaluation without answers that can be read is skipped: it is
    /// no reason to have no report.
    pub fn read(directory: &Path, evaluations: &[MetricsLine]) -> Self {
        let Some(last) = evaluations.last() else { return Self::default() };
        let before = evaluations.iter().rev().nth(1).map(|line| line.step);
        let verdicts = before.map(|step| verdicts(directory, step)).unwrap_or_default();
        let mut gallery = Self { step: last.step, before: before.filter(|_| !verdicts.is_empty()), ..Self::default() };
        let mut problems: BTreeMap<(String, u64), Problem> = BTreeMap::new();
        for_each_answer(directory, last.step, |answer| {
            gallery.consider(&answer, &verdicts);
            let problem = problems.entry((answer.benchmark.clone(), answer.index)).or_default();
            problem.add(&answer);
        });
        gallery.choose_uncertain(directory, problems);
        gallery
    }

    fn consider(&mut self, answer: &EvaluationAnswer, before: &HashMap<Key, String>) {
        if !answer.verdict.is_valid() {
            if self.invalid.len() < EACH {
                self.invalid.push(answer.clone());
            }
            return;
        }
        keep(&mut self.longest, answer, |a, b| a.token_ids.len() > b.token_ids.len());
        keep(&mut self.shortest, answer, |a, b| a.token_ids.len() < b.token_ids.len());
        let key = (answer.benchmark.clone(), answer.index, answer.sample);
        if let Some(verdict) = before.get(&key).filter(|verdict| *verdict != answer.verdict.label()) {
            // Some of what got worse and some of what got better.
            let correct = answer.verdict.correct();
            let same_way = self.changed.iter().filter(|(_, other)| other.verdict.correct() == correct).count();
            if same_way < EACH {
                self.changed.push((verdict.clone(), answer.clone()));
            }
        }
    }

    /// Chooses a correct answer and one that is not, from the problems whose share of correct answers is nearest to one
    /// half.
    fn choose_uncertain(&mut self, directory: &Path, problems: BTreeMap<(String, u64), Problem>) {
        let mut open: Vec<_> = problems.into_iter().filter(|(_, problem)| problem.is_open()).collect();
        open.sort_by(|(_, a), (_, b)| a.distance().total_cmp(&b.distance()));
        open.truncate(EACH);
        if open.is_empty() {
            return;
        }
        let mut found: Vec<[Option<EvaluationAnswer>; 2]> = vec![[None, None]; open.len()];
        for_each_answer(directory, self.step, |answer| {
            let place = open
                .iter()
                .position(|((benchmark, index), _)| *benchmark == answer.benchmark && *index == answer.index);
            if let Some((place, correct)) = place.zip(answer.verdict.correct())
                && let slot = &mut found[place][usize::from(!correct)]
                && slot.is_none()
            {
                *slot = Some(answer);
            }
        });
        for ((_, problem), answers) in open.iter().zip(found) {
            self.uncertain.extend(answers.into_iter().flatten().map(|answer| (problem.share(), answer)));
        }
    }

    /// The answers as text, folded.
    pub(super) fn to_html(&self) -> Html {
        let mut html = Html::new();
        let mut part = |title: &'static str, answers: Vec<(Option<String>, &EvaluationAnswer)>| {
            if !answers.is_empty() {
                html.push(Html::element("h4", &[], title));
                html.push(
                    answers.into_iter().map(|(note, answer)| shown(title, note.as_deref(), answer)).collect::<Html>(),
                );
            }
        };
        part(
            "Changed verdicts",
            self.changed.iter().map(|(was, answer)| (Some(format!("was {was}")), answer)).collect(),
        );
        let share = |share: f64| Some(format!("{:.0} % of its answers correct", 100.0 * share));
        part(
            "Most uncertain problems",
            self.uncertain.iter().map(|(correct, answer)| (share(*correct), answer)).collect(),
        );
        let others = [("Longest", &self.longest), ("Shortest", &self.shortest), ("Without a verdict", &self.invalid)];
        for (title, answers) in others {
            part(title, answers.iter().map(|answer| (None, answer)).collect());
        }
        if html.is_empty() {
            return html;
        }
        let since = self.before.map_or_else(String::new, |step| format!("; changes are since the one after {step}"));
        let text = format!(
            "All of them: evenkeel show RUN --step {}{since}. Texts are cut at {MAX_CHARACTERS} characters.",
            self.step
        );
        let heading = Html::element("h3", &[], format!("Answers of the evaluation after {} steps", self.step));
        heading.with(Html::element("p", &[("class", "soft")], text)).with(html)
    }
}

/// The answers to one problem of which it is known whether they are correct.
#[derive(Debug, Default)]
struct Problem {
    correct: u32,
    known: u32,
}

impl Problem {
    fn add(&mut self, answer: &EvaluationAnswer) {
        self.known += u32::from(answer.verdict.correct().is_some());
        self.correct += u32::from(answer.verdict.correct() == Some(true));
    }

    /// Whether some answers are correct and some are not.
    fn is_open(&self) -> bool {
        self.correct > 0 && self.correct < self.known
    }

    fn share(&self) -> f64 {
        f64::from(self.correct) / f64::from(self.known.max(1))
    }

    fn distance(&self) -> f64 {
        (self.share() - 0.5).abs()
    }
}

/// Keeps the first few by an order.
fn keep(
    kept: &mut Vec<EvaluationAnswer>,
    answer: &EvaluationAnswer,
    before: impl Fn(&EvaluationAnswer, &EvaluationAnswer) -> bool,
) {
    let place = kept.iter().position(|other| before(answer, other)).unwrap_or(kept.len());
    if place < EACH {
        kept.insert(place, answer.clone());
        kept.truncate(EACH);
    }
}

fn verdicts(directory: &Path, step: u64) -> HashMap<Key, String> {
    let mut verdicts = HashMap::new();
    for_each_answer(directory, step, |answer| {
        let verdict = answer.verdict.label().to_owned();
        verdicts.insert((answer.benchmark, answer.index, answer.sample), verdict);
    });
    verdicts
}

fn for_each_answer(directory: &Path, step: u64, mut take: impl FnMut(EvaluationAnswer)) {
    let mut left = MAX_ANSWERS;
    for (_, path) in list_answers(&evaluation_folder(directory, step)).unwrap_or_default() {
        let Ok(reader) = AnswerReader::open(&path) else { continue };
        for answer in reader.map_while(Result::ok) {
            if left == 0 {
                return;
            }
            left -= 1;
            take(answer);
        }
    }
}

fn shown(kind: &str, note: Option<&str>, answer: &EvaluationAnswer) -> Html {
    let reason = if answer.reason.is_empty() { String::new() } else { format!(" ({})", answer.reason) };
    let parts: String = answer.telling_parts().map(|(name, value)| format!(" · {}", labelled(name, value))).collect();
    let mut about = format!(
        "{}{reason}{}{parts} · {} tokens, {}",
        answer.verdict.label(),
        partial_reward(&answer.verdict, answer.score),
        answer.token_ids.len(),
        answer.finish_reason.label()
    );
    if let Some(note) = note {
        about = format!("{about} · {note}");
    }
    let name = format!("{} {}", answer.benchmark, answer.problem);
    let title = Html::text(&name).with(" ").with(Html::element("i", &[], format!("· {about}")));
    let said = Said { text: &answer.text, turns: &answer.turns, used_up: answer.used_up.as_deref() };
    let cut = |text: &str| cut(text, MAX_CHARACTERS);
    let mut content = Html::element("summary", &[], title)
        .with(Html::element("pre", &[], cut(&answer.prompt)))
        .with(said.to_html("added", MAX_CHARACTERS));
    if !answer.gold.is_empty() {
        content.push(Html::element("p", &[("class", "soft")], format!("Gold: {}", cut(&answer.gold.join(" or ")))));
    }
    if !answer.detail.is_empty() {
        content.push(Html::element("p", &[("class", "soft")], cut(&answer.detail)));
    }
    let key = format!("{kind} {name} {}", answer.sample);
    Html::element("details", &[("data-key", &key)], content)
}

/// The answers worth reading, read again only when there is another evaluation.
#[derive(Debug, Default)]
pub struct GalleryCache(Mutex<Option<(u64, Arc<Gallery>)>>);

impl GalleryCache {
    /// The answers of a run with these evaluations.
    pub fn get(&self, directory: &Path, evaluations: &[MetricsLine]) -> Arc<Gallery> {
        let Some(last) = evaluations.last().map(|line| line.step) else { return Arc::default() };
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((step, gallery)) = &*cached
            && *step == last
        {
            return Arc::clone(gallery);
        }
        let gallery = Arc::new(Gallery::read(directory, evaluations));
        *cached = Some((last, Arc::clone(&gallery)));
        gallery
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_run::RolloutTurn;

    use super::*;

    fn answer(index: u64, sample: u32, verdict: &str, tokens: usize) -> EvaluationAnswer {
        let score = match verdict {
            "correct" => Some(1.0),
            "invalid" => None,
            _ => Some(0.0),
        };
        serde_json::from_value(serde_json::json!({
            "benchmark": "sums", "problem": format!("p{index}"), "index": index, "sample": sample, "gold": ["2"],
            "prompt": "1+1=", "text": "<script>alert(1)</script>", "token_ids": vec![7; tokens], "finish_reason": "stop",
            "verdict": verdict, "reason": "equal", "score": score,
        }))
        .unwrap()
    }

    #[test]
    fn partial_credit_stands_beside_the_verdict() {
        let shown = |verdict: &str, score: f64| {
            let answer = EvaluationAnswer { score: Some(score), ..answer(0, 0, verdict, 4) };
            shown("Longest", None, &answer).into_string()
        };
        assert!(shown("incorrect", 0.909).contains("incorrect (equal) · reward\u{a0}0.909 · 4 tokens"));
        assert!(shown("scored", 1.0).contains("scored (equal) · reward\u{a0}1 · 4 tokens"));
        assert!(!shown("correct", 1.0).contains("reward") && !shown("incorrect", 0.0).contains("reward"));
    }

    #[test]
    fn the_parts_of_a_weighted_reward_stand_beside_the_verdict() {
        let components = [("correctness".to_owned(), 1.0), ("short".to_owned(), 0.25)].into();
        let answer = EvaluationAnswer { components, ..answer(0, 0, "correct", 4) };
        let html = shown("Longest", None, &answer).into_string();
        assert!(html.contains("correct (equal) · short\u{a0}0.25 · 4 tokens"), "{html}");
    }

    #[test]
    fn what_is_long_short_changed_or_without_a_verdict_is_kept() {
        let mut gallery = Gallery::default();
        let before = HashMap::from([
            (("sums".to_owned(), 1, 0), "incorrect".to_owned()),
            (("sums".to_owned(), 2, 0), "correct".to_owned()),
        ]);
        for index in 0..6 {
            gallery.consider(&answer(index, 0, "correct", 10 + index as usize), &before);
        }
        gallery.consider(&answer(9, 0, "invalid", 99), &before);
        let lengths =
            |answers: &[EvaluationAnswer]| answers.iter().map(|answer| answer.token_ids.len()).collect::<Vec<_>>();
        assert_eq!((lengths(&gallery.longest), lengths(&gallery.shortest)), (vec![15, 14, 13], vec![10, 11, 12]));
        let changed: Vec<_> = gallery.changed.iter().map(|(was, answer)| (was.as_str(), answer.index)).collect();
        assert_eq!(changed, [("incorrect", 1)]);
        assert_eq!(gallery.invalid.len(), 1);
        let html = gallery.to_html().into_string();
        assert!(html.contains("&lt;script&gt;alert(1)") && !html.contains("<script"), "{html}");
        assert!(html.contains("was incorrect") && html.contains("Gold: 2"));
    }

    #[test]
    fn an_episode_is_shown_turn_by_turn_and_which_budget_ended_it() {
        let turn = |role: &str, text: &str, trained| RolloutTurn {
            role: role.to_owned(),
            text: text.to_owned(),
            tokens: 4,
            trained,
            reward: None,
        };
        let turns = vec![turn("assistant", "6*7 is", true), turn("tool", "42", false)];
        let episode = EvaluationAnswer { turns, used_up: Some("turn_tokens".to_owned()), ..answer(0, 0, "correct", 4) };
        let html = shown("Longest", None, &episode).into_string();
        assert!(html.contains("6*7 is</pre>") && html.contains("42</pre>") && !html.contains("alert"), "{html}");
        assert!(
            html.contains("tool · 4\u{a0}tokens, added") && html.contains("ended by its budget of turn tokens"),
            "{html}"
        );
    }
}
