//! Groups of a training step side by side, the lengths and rewards of the step, and how problems are solved over time.

use evenkeel_charts::{
    Bar, Bars, Chart, Figure, Histogram, Html, HtmlTable, Point, Series, Style, figures, number, percent,
};
use evenkeel_run::{PromptOutcome, Rollout};

use super::said::{Said, cut, labelled, partial_reward};
use super::training_samples::{Class, Course, TrainingSamples};

/// Characters of a prompt that are shown.
const PROMPT: usize = 1_200;
/// Characters of an answer that are shown.
const ANSWER: usize = 900;
/// Problems whose course is drawn, and those that have a row.
const DRAWN: usize = 4;
const LISTED: usize = 12;
/// Different rewards that have a bar each.
const FEW: usize = 10;
/// Times that a row lists.
const TIMES: usize = 8;

/// The part of the page; nothing where no samples are kept.
pub(super) fn section(samples: &TrainingSamples) -> Html {
    if samples.step == 0 {
        return Html::new();
    }
    let step = samples.step;
    let mut html = Html::element("h3", &[], format!("Groups of training step {step}"));
    let (all, differ) = samples.differing;
    let which = match (differ, samples.groups.len()) {
        (0, _) => format!("In all {all} groups the rewards are equal; one of them is shown"),
        (_, shown) if shown == differ => format!("The rewards differ in {differ} of {all} groups, which are these"),
        (_, shown) => format!("The rewards differ in {differ} of {all} groups; these {shown} differ most"),
    };
    let note = format!(
        "{which}. All samples: evenkeel show RUN --train --step {step}. The weight is what each token of an answer \
         counts in the loss under the run's rule."
    );
    html.push(Html::element("p", &[("class", "soft")], note));
    let groups = samples.groups.iter().map(|group| shown(group)).collect::<Html>();
    html.push(Html::element("div", &[("class", "groups")], groups));
    html.push(Html::element("h3", &[], format!("Lengths and rewards of step {step}")));
    html.push(figures([lengths(samples), rewards(samples)]));
    html.with(courses(samples))
}

fn shown(group: &[Rollout]) -> Html {
    let Some(first) = group.first() else { return Html::new() };
    let title =
        format!("Problem {} · {} · {} · {}", first.index + 1, first.problem, how_it_went(group), outcome(first));
    let gold = if first.gold.is_empty() { String::new() } else { format!(" · gold {}", first.gold.join(" or ")) };
    let heading = Html::element("p", &[], Html::element("b", &[], title).with(gold.as_str()));
    let answers = distinct(group).into_iter().map(|(rollout, count)| answer(rollout, count)).collect::<Html>();
    let content = heading.with(Html::element("pre", &[], cut(&first.prompt, PROMPT)));
    Html::element("div", &[("class", "group")], content.with(Html::element("div", &[("class", "answers")], answers)))
}

/// How many answers of a group are correct, and the range of its rewards where that says more.
fn how_it_went(group: &[Rollout]) -> String {
    let known = group.iter().filter(|rollout| rollout.verdict.correct().is_some()).count();
    let correct = group.iter().filter(|rollout| rollout.verdict.correct() == Some(true)).count();
    let says_more = group.iter().any(|rollout| !partial_reward(&rollout.verdict, rollout.reward).is_empty());
    let rewards = || group.iter().filter_map(|rollout| rollout.reward);
    let lowest = rewards().fold(f64::INFINITY, f64::min);
    let highest = rewards().fold(f64::NEG_INFINITY, f64::max);
    let counts = (known > 0 || !says_more).then(|| format!("{correct} of {} correct", group.len()));
    let equal = lowest == highest;
    let range = if equal {
        format!("rewards all {}", number(lowest))
    } else {
        format!("rewards {} to {}", number(lowest), number(highest))
    };
    let range = says_more.then_some(range);
    counts.into_iter().chain(range).collect::<Vec<_>>().join(" · ")
}

/// The outcome of a group.
fn outcome(first: &Rollout) -> &str {
    match first.group_outcome.known() {
        Some(PromptOutcome::Trained) => "trained on",
        Some(PromptOutcome::TrainedZeroAdvantage) => "no advantage, since all rewards are equal",
        Some(PromptOutcome::DroppedZeroAdvantage) => "filtered, since all rewards are equal",
        Some(PromptOutcome::Invalid) => "no verdict",
        Some(PromptOutcome::DroppedInvalid) => "filtered, since there is no verdict",
        None => first.group_outcome.label(),
    }
}

/// Answers of a group, those that look the same once, with how many they are.
fn distinct(group: &[Rollout]) -> Vec<(&Rollout, usize)> {
    let mut found: Vec<(&Rollout, usize)> = Vec::new();
    let is_same = |a: &Rollout, b: &Rollout| {
        (&a.text, &a.turns, a.tokens, a.verdict.label(), &a.reason)
            == (&b.text, &b.turns, b.tokens, b.verdict.label(), &b.reason)
            && (a.advantage, a.weight, a.why_not_trained()) == (b.advantage, b.weight, b.why_not_trained())
    };
    for rollout in group {
        match found.iter_mut().find(|(other, _)| is_same(other, rollout)) {
            Some((_, count)) => *count += 1,
            None => found.push((rollout, 1)),
        }
    }
    found
}

fn answer(rollout: &Rollout, count: usize) -> Html {
    let class = match Class::of(rollout) {
        Class::Correct => "right",
        Class::NotCorrect => "wrong",
        Class::Scored => "scored",
        Class::Unjudged => "unjudged",
    };
    let reason = if rollout.reason.is_empty() { String::new() } else { format!(" ({})", rollout.reason) };
    let cut_off = if rollout.is_truncated() { ", cut off" } else { "" };
    let verdict = Html::element("b", &[], rollout.verdict.label().replace('_', " "));
    let times = if count > 1 { format!(" · {count}\u{a0}times") } else { String::new() };
    let reward = partial_reward(&rollout.verdict, rollout.reward);
    let about = verdict.with(format!("{reason}{reward} · {}\u{a0}tokens{cut_off}{times}", rollout.tokens));
    let mut learner: Vec<String> = rollout.telling_parts().map(|(name, value)| labelled(name, value)).collect();
    let named = learner.len();
    learner.extend(rollout.why_not_trained().map(|why| format!("not trained on: {why}")));
    let is_trained = learner.len() == named;
    learner.extend(
        rollout.advantage.filter(|value| is_trained || *value != 0.0).map(|value| labelled("advantage", value)),
    );
    learner.extend(rollout.weight.filter(|value| is_trained || *value != 0.0).map(|value| labelled("weight", value)));
    let said = Said { text: &rollout.text, turns: &rollout.turns, used_up: rollout.used_up.as_deref() };
    let content = Html::element("p", &[], about)
        .with(Html::element("p", &[("class", "soft")], learner.join("\u{a0}· ")))
        .with(said.to_html("added, not trained on", ANSWER));
    Html::element("div", &[("class", class)], content)
}

fn lengths(samples: &TrainingSamples) -> Figure {
    let lengths_of = |class: Class| {
        let lengths = samples.lengths.iter().filter(move |(found, _)| *found == class);
        lengths.map(|(_, tokens)| f64::from(*tokens)).collect::<Vec<_>>()
    };
    let caption = "number of answers of the step by length, stacked by outcome";
    Histogram::new("Answer lengths", caption, "tokens", "answers")
        .with("correct", 3, lengths_of(Class::Correct))
        .with("not correct", 2, lengths_of(Class::NotCorrect))
        .with("with a reward alone", 1, lengths_of(Class::Scored))
        .with("without a verdict", 8, lengths_of(Class::Unjudged))
        .into()
}

fn rewards(samples: &TrainingSamples) -> Figure {
    let caption = "number of samples of the step by shaped reward, from which advantages are computed";
    let mut distinct: Vec<(f64, usize)> = Vec::new();
    let mut sorted = samples.rewards.clone();
    sorted.sort_by(f64::total_cmp);
    for reward in sorted {
        match distinct.last_mut().filter(|(value, _)| *value == reward) {
            Some((_, count)) => *count += 1,
            None => distinct.push((reward, 1)),
        }
    }
    if distinct.len() > FEW {
        let values = samples.rewards.clone();
        return Histogram::new("Rewards", caption, "shaped reward", "samples").with("samples", 1, values).into();
    }
    // Ranges would only blur a few values.
    let all = samples.rewards.len().max(1) as f64;
    let bar = |(value, count): &(f64, usize)| {
        let share = percent(*count as f64 / all, None);
        Bar::new(number(*value), *count as f64).written(format!("{count} · {share}"))
    };
    Bars::new("Rewards", caption, distinct.iter().map(bar)).into()
}

/// The problems that changed most, drawn and as a table. Nothing where no problem came twice.
fn courses(samples: &TrainingSamples) -> Html {
    let mut again: Vec<(&u64, &Course)> = samples.problems.iter().filter(|(_, course)| course.seen.len() > 1).collect();
    if again.is_empty() {
        return Html::new();
    }
    let all = again.len();
    // A stable order: of equal changes the problem that comes first in the data.
    again.sort_by(|(_, a), (_, b)| b.change().abs().total_cmp(&a.change().abs()).then(b.seen.len().cmp(&a.seen.len())));
    let rates = |course: &Course| course.seen.iter().map(|seen| Course::rate(*seen)).collect::<Vec<_>>();
    let mean =
        |of: &dyn Fn(&[f64]) -> f64| again.iter().map(|(_, course)| of(&rates(course))).sum::<f64>() / all as f64;
    let first = mean(&|rates| rates[0]);
    let last = mean(&|rates| rates[rates.len() - 1]);
    let count = |of: &dyn Fn(f64) -> bool| again.iter().filter(|(_, course)| of(course.change())).count();
    let (kept, read) = samples.steps;
    let of_steps =
        if kept == read { format!("{kept} steps") } else { format!("{read} of {kept} steps, evenly spread") };
    let text = format!(
        "{all} problems came more than once in {of_steps}: on average {} of the answers were correct at the first time \
         and {} at the last; {} problems got better and {} worse. One of them over all steps: evenkeel show RUN \
         --train --problem N.",
        percent(first, None),
        percent(last, None),
        count(&|change| change > 0.0),
        count(&|change| change < 0.0),
    );
    let caption = "share of correct answers each time that the problem came, of those that changed most from the first \
        to the last time";
    let chart = Chart::new("Solve rate of single problems", caption).from(0.0).up_to(1.0);
    let line = |(index, course): &(&u64, &Course)| {
        let points = course.seen.iter().map(|seen| Point::new(seen.0 as f64, Course::rate(*seen)));
        Series::new(format!("problem {}", *index + 1), Style::ErrorBars, points)
    };
    let chart = again.iter().take(DRAWN).map(line).fold(chart.measured_in("solve rate, 0 to 1"), Chart::with);
    let mut table = HtmlTable::new(["problem", "name", "times", "correct answers by step"]);
    for (index, course) in again.iter().take(LISTED) {
        let skipped = course.seen.len().saturating_sub(TIMES);
        let mut times: Vec<String> = Vec::new();
        for (place, (step, correct, known)) in course.seen.iter().enumerate() {
            // The first and the last ones.
            if place == 0 || place > skipped {
                times.push(format!("{step}: {correct}/{known}"));
            } else if place == 1 {
                times.push("…".to_owned());
            }
        }
        table.row([(*index + 1).to_string(), course.name.clone(), course.seen.len().to_string(), times.join(", ")]);
    }
    Html::element("h3", &[], "Problems over time")
        .with(Html::paragraph(text))
        .with(figures([chart.into()]))
        .with(table.to_html())
}

#[cfg(test)]
mod tests {
    use super::super::training_samples::TrainingCache;
    use super::super::training_samples::tests::{kept, rollout};
    use super::*;

    #[test]
    fn groups_stand_side_by_side_with_verdict_length_and_weight_and_stay_text() {
        let dir = tempfile::tempdir().unwrap();
        kept(dir.path(), 3);
        let html = section(&TrainingCache::default().get(dir.path())).into_string().replace('\u{a0}', " ");
        assert!(html.contains("Groups of training step 3") && html.contains("show RUN --train --step 3"), "{html}");
        assert!(html.contains("Problem 1 · p#0 · 3 of 4 correct · trained on</b> · gold 2"), "{html}");
        assert!(html.contains("<div class=\"right\"><p><b>correct</b> (equal) · 5 tokens</p>"), "{html}");
        assert!(html.contains("advantage 0.5 · weight 0.25") && html.contains("&lt;b&gt;2&lt;/b&gt;"), "{html}");
        assert!(html.contains("<h3>Answer lengths</h3>") && html.contains("<h3>Rewards</h3>"), "{html}");
    }

    #[test]
    fn with_partial_credit_a_group_says_how_many_are_correct_and_the_range_of_its_rewards() {
        let judged = |verdict: &str, reward: f64| Rollout {
            verdict: verdict.to_owned().into(),
            reward: Some(reward),
            ..rollout(1, 0, 0, false)
        };
        let html = shown(&[judged("correct", 0.75), judged("incorrect", 0.25), judged("incorrect", 0.5)])
            .into_string()
            .replace('\u{a0}', " ");
        assert!(html.contains("p#0 · 1 of 3 correct · rewards 0.25 to 0.75 · trained on"), "{html}");
        assert!(html.contains("<div class=\"wrong\"><p><b>incorrect</b> (equal) · reward 0.25"), "{html}");
        let html = shown(&[judged("scored", 1.0), judged("scored", 0.5)]).into_string().replace('\u{a0}', " ");
        assert!(html.contains("p#0 · rewards 0.5 to 1 · trained on") && html.contains("class=\"scored\""), "{html}");
        assert!(!html.contains("correct"), "{html}");
    }

    #[test]
    fn the_groups_that_are_shown_are_those_whose_rewards_differ() {
        let dir = tempfile::tempdir().unwrap();
        kept(dir.path(), 1);
        let html = section(&TrainingCache::default().get(dir.path())).into_string().replace('\u{a0}', " ");
        assert!(html.contains("The rewards differ in 1 of 3 groups, which are these."), "{html}");
    }

    #[test]
    fn answers_that_are_the_same_stand_there_once_with_how_many_they_are() {
        let group = [(0, true), (0, true), (0, false), (1, true)].map(|(sample, right)| rollout(1, 0, sample, right));
        let html = shown(&group).into_string().replace('\u{a0}', " ");
        assert!(html.contains("3 of 4 correct") && html.matches("class=\"soft\"").count() == 3, "{html}");
        assert_eq!(html.matches("tokens · 2 times").count(), 1, "{html}");
    }

    #[test]
    fn an_episode_is_shown_turn_by_turn_with_what_is_trained_on_and_the_parts_of_its_reward() {
        let mut rollout = rollout(1, 0, 0, true);
        let turn = |role: &str, text: &str, trained| evenkeel_run::RolloutTurn {
            role: role.to_owned(),
            text: text.to_owned(),
            tokens: 4,
            trained,
            reward: None,
        };
        rollout.turns =
            vec![turn("assistant", "<call>", true), turn("tool", "7", false), turn("assistant", "It is 7", true)];
        rollout.turns.push(evenkeel_run::RolloutTurn { tokens: 0, ..turn("prompt", "Go on", false) });
        rollout.turns[2].reward = Some(0.25);
        rollout.components = [("correctness".to_owned(), 1.0), ("economy".to_owned(), 0.5)].into();
        let html = shown(&[rollout]).into_string().replace('\u{a0}', " ");
        assert!(html.contains("assistant · 4 tokens, sampled</p><pre class=\"sampled\">&lt;call&gt;</pre>"), "{html}");
        assert!(html.contains("tool · 4 tokens, added, not trained on</p><pre class=\"added\">7</pre>"), "{html}");
        assert!(html.contains("sampled · reward 0.25</p><pre class=\"sampled\">It is 7</pre>"), "{html}");
        assert!(html.contains("prompt · added, not trained on</p>"), "no tokens of its own: {html}");
        // Without the part that is the reward.
        assert!(html.contains("economy 0.5 · advantage") && !html.contains("correctness"), "{html}");
    }

    #[test]
    fn the_course_of_a_problem_is_drawn_and_listed() {
        let dir = tempfile::tempdir().unwrap();
        kept(dir.path(), 3);
        let html = section(&TrainingCache::default().get(dir.path())).into_string().replace('\u{a0}', " ");
        assert!(html.contains("3 problems came more than once in 3 steps"), "{html}");
        assert!(html.contains("1 problems got better and 0 worse"), "{html}");
        assert!(html.contains("<td>1: 1/4, 2: 2/4, 3: 3/4</td>"), "{html}");
        assert!(html.contains("Solve rate of single problems"), "{html}");
        let once = tempfile::tempdir().unwrap();
        kept(once.path(), 1);
        assert!(!section(&TrainingCache::default().get(once.path())).into_string().contains("over time"));
        assert!(section(&TrainingSamples::default()).is_empty());
    }
}
