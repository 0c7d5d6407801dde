//! What an environment says before the first turn, which follows the row's prompt and is each sample's own.

use std::collections::BTreeSet;

use evenkeel_orchestrator::EarlierTurns;
use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{
    Act, EnvironmentEvent, EnvironmentMessage, GenerateItem, MessageRole, Observed, Opened, Outcome, Scored, Verdict,
};
use evenkeel_run::read_rollouts;

use crate::support::bounded;
use crate::support::calculator::{Table, settings};
use crate::support::environment::{event, file};
use crate::support::generation::text_of;

fn user(content: String) -> EnvironmentMessage {
    EnvironmentMessage { role: MessageRole::User.into(), content, ..EnvironmentMessage::default() }
}

/// Says something first that only some samples of a group share, and something else to the first turn.
fn shelf(kind: &Kind) -> Vec<EnvironmentEvent> {
    match kind {
        Kind::Open(open) => {
            let number = u32::from(open.episode_id.ends_with('0'));
            let messages = vec![user(format!("The shelf has {number}."))];
            vec![event(&open.episode_id, open.attempt, Event::Opened(Opened { messages, ..Opened::default() }))]
        }
        Kind::Act(Act { episode_id, attempt, turn: 1, .. }) => {
            let messages = vec![user("Go on.".to_owned())];
            vec![event(episode_id, *attempt, Event::Observed(Observed { turn: 1, messages, ..Observed::default() }))]
        }
        Kind::Act(Act { episode_id, attempt, turn, .. }) => {
            let observed = Event::Observed(Observed { turn: *turn, done: true, ..Observed::default() });
            let reward = f64::from(u8::from(episode_id.ends_with('0')));
            let outcome = if reward == 1.0 { Outcome::Correct } else { Outcome::Incorrect };
            let verdict = Some(Verdict::judged(episode_id, outcome, "environment", reward));
            [observed, Event::Scored(Scored { verdict })].map(|kind| event(episode_id, *attempt, kind)).into()
        }
        _ => Vec::new(),
    }
}

/// Says something after whatever it stands.
fn said(item: &GenerateItem) -> Option<String> {
    let before: usize = item.prefix_segments.iter().map(|segment| segment.token_ids.len()).sum();
    Some("x".repeat(before) + "said")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_sample_has_a_prompt_with_what_its_own_environment_says_first() {
    bounded(async {
        for rewrites in [false, true] {
            let table = Table::start(64).await;
            *table.cluster.generation.state.answers.lock().unwrap() = Some(Box::new(said));
            *table.environment.state.agent.lock().unwrap() = Some(Box::new(shelf));
            let mut settings = settings();
            settings.run.steps = 1;
            settings.data.environment = Some(file().name);
            if rewrites {
                settings.turns.earlier_turns = EarlierTurns::Rewrite;
            }
            let path = table.run("run", &settings).await.unwrap();
            for group in table.groups() {
                let asked = text_of(&group.prompt_token_ids);
                assert!(!asked.contains("shelf"), "the prompt of the group is the row's: {asked}");
                let mut firsts = BTreeSet::new();
                for sample in &group.samples {
                    let prompts: Vec<_> =
                        sample.contexts.iter().map(|context| (context.segment, text_of(&context.token_ids))).collect();
                    let (first, prompt) = &prompts[0];
                    let number = u32::from(sample.sample_id.ends_with('0'));
                    let ending = format!("user\nThe shelf has {number}.\nassistant\n");
                    assert!(*first == 0 && prompt.ends_with(&ending), "{prompt}");
                    let of_row = asked.strip_suffix("assistant\n").unwrap();
                    assert!(prompt.starts_with(of_row), "after the prompt of the row: {prompt}");
                    firsts.insert(prompt.clone());
                    // The later turn goes on from there, and so does one whose prompt is rendered anew.
                    assert_eq!(prompts.len(), 1, "{prompts:?}");
                    assert_eq!(text_of(&sample.segments[1].token_ids), "\nuser\nGo on.\nassistant\n");
                    let seen = table.cluster.generation.state.seen.lock().unwrap();
                    let items: Vec<_> = seen.iter().filter(|item| item.sample_id == sample.sample_id).collect();
                    assert!(items.iter().all(|item| item.prompt_token_ids == sample.contexts[0].token_ids));
                }
                assert_eq!(firsts.len(), 2, "samples share a prompt where their environments agree");
            }
            let kept = &read_rollouts(&path, 1).unwrap()[0];
            let turns: Vec<_> = kept.turns.iter().map(|turn| (turn.role.as_str(), turn.text.as_str())).collect();
            assert_eq!(turns[..2], [("user", "The shelf has 1."), ("assistant", "said")]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_leaves_no_room_for_a_turn_is_refused_by_its_length() {
    bounded(async {
        let table = Table::start(64).await;
        *table.environment.state.agent.lock().unwrap() = Some(Box::new(|kind: &Kind| match kind {
            Kind::Open(open) => {
                let messages = vec![user("x".repeat(300))];
                vec![event(&open.episode_id, open.attempt, Event::Opened(Opened { messages, ..Opened::default() }))]
            }
            _ => Vec::new(),
        }));
        let mut settings = settings();
        settings.data.environment = Some(file().name);
        let error = table.run("run", &settings).await.unwrap_err().to_string();
        assert!(error.contains("the prompt with what `reset` gives has ") && error.contains("max_tokens"), "{error}");
    })
    .await;
}
