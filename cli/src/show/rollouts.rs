//! One sample of a training step as text.

use std::io::{self, Write};

use evenkeel_proto::shown::multi_line;
use evenkeel_run::Rollout;

use super::answers::{ended_by, length, one_line, parts, said, section, short};

/// Prints samples one after the other; a prompt once for all samples of its group.
#[derive(Default)]
pub(super) struct ShownRollouts {
    group: Option<(u64, u64)>,
}

impl ShownRollouts {
    pub(super) fn rollout(&mut self, rollout: &Rollout, out: &mut impl Write) -> io::Result<()> {
        let group = (rollout.step, rollout.group);
        if self.group.replace(group) != Some(group) {
            writeln!(
                out,
                "════ step {} · problem {} · {} · {}\n",
                rollout.step,
                rollout.index + 1,
                multi_line(&rollout.problem),
                multi_line(rollout.group_outcome.label()).replace('_', " ")
            )?;
            section(out, "prompt", &rollout.prompt)?;
        }
        writeln!(
            out,
            "──── sample {} · {} · {}\n",
            rollout.sample + 1,
            multi_line(rollout.verdict.label()),
            length(rollout.tokens as usize, rollout.is_truncated())
        )?;
        said(out, &rollout.text, &rollout.turns, "added, not trained on")?;
        let mut line = |name: &str, value: &str| writeln!(out, "{name:<9} {}", multi_line(value));
        if let Some(extracted) = &rollout.extracted {
            line("final", one_line(extracted))?;
        }
        for gold in &rollout.gold {
            line("gold", gold)?;
        }
        let reward = match (rollout.reward, rollout.shaped_reward) {
            (Some(raw), Some(shaped)) if raw != shaped => {
                format!("reward {}, {} when shaped", short(raw), short(shaped))
            }
            (Some(raw), _) => format!("reward {}", short(raw)),
            (None, _) => "no reward".to_owned(),
        };
        if let Some(parts) = parts(rollout.telling_parts()) {
            line("parts", &parts)?;
        }
        line("verdict", &format!("{}, {reward}", rollout.verdict.label()))?;
        let reason = match rollout.detail.as_str() {
            "" => rollout.reason.clone(),
            detail => format!("{}: {detail}", rollout.reason),
        };
        line("reason", &reason)?;
        line("learner", &learner(rollout))?;
        if let Some(used_up) = &rollout.used_up {
            line("ended by", &ended_by(used_up))?;
        }
        let versions = versions(rollout);
        if !versions.is_empty() {
            line("weights", &versions)?;
        }
        writeln!(out)
    }
}

/// What the learner did with it.
fn learner(rollout: &Rollout) -> String {
    let mut parts = vec![match rollout.why_not_trained() {
        Some(why) => format!("not trained on: {why}"),
        None => "trained on".to_owned(),
    }];
    let values = [
        ("advantage", rollout.advantage),
        ("weight of a token", rollout.weight),
        ("mean log-probability", rollout.log_probability.or(rollout.rollout_log_probability)),
        ("mean ratio", rollout.ratio),
    ];
    parts.extend(values.iter().filter_map(|(name, value)| Some(format!("{name} {}", short((*value)?)))));
    parts.join(", ")
}

/// Which weights sampled it.
fn versions(rollout: &Rollout) -> String {
    let part = |version: Option<u64>| version.map_or_else(|| "none".to_owned(), |version| format!("version {version}"));
    match rollout.segments.as_slice() {
        [] => String::new(),
        [only] => part(only.version),
        several => {
            let several =
                several.iter().map(|segment| format!("{} ({} tokens)", part(segment.version), segment.tokens));
            several.collect::<Vec<_>>().join(", then ")
        }
    }
}
