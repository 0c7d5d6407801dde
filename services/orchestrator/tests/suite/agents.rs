//! Agents that ask the model by themselves: what their turns follow, that another conversation is another sequence of
//! the same sample, and what becomes of what no prompt can be made of.

use evenkeel_orchestrator::{EarlierTurns, LoopSettings};
use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{
    Act, CloseReason, EnvironmentEvent, EnvironmentMessage, FinishReason, GenerateItem, MessageRole, ModelRequest,
    Observed, Opened, Outcome, Scored, SegmentSource, Verdict,
};
use evenkeel_run::read_rollouts;
use serde_json::{Value, json};

use crate::support::calculator::{Table, settings as with_calculator};
use crate::support::environment::{agent, event};
use crate::support::generation::text_of;
use crate::support::{bounded, lines, metrics};

fn settings() -> LoopSettings {
    let mut settings = with_calculator();
    settings.data.environment = Some(agent().name);
    settings
}

/// What an agent asks: a conversation of its own, or none where it goes on.
fn request(conversation: Option<Value>, max_tokens: Option<u32>) -> Option<ModelRequest> {
    let messages = conversation.map(|messages| json!({"messages": messages, "tools": []}).to_string());
    let conversation = messages.unwrap_or_default().into_bytes();
    Some(ModelRequest { conversation, max_tokens, ..ModelRequest::default() })
}

fn opened(conversation: Value) -> Event {
    Event::Opened(Opened { request: request(Some(conversation), None), ..Opened::default() })
}

/// The environment's score: right for every other sample.
fn scored(id: &str) -> Event {
    let is_right = id.ends_with(['1', '3', '5', '7', '9']);
    let (outcome, reward) = if is_right { (Outcome::Correct, 1.0) } else { (Outcome::Incorrect, 0.0) };
    Event::Scored(Scored { verdict: Some(Verdict::judged(id, outcome, "environment", reward)) })
}

/// What the turns of an episode earn.
const REWARDS: [Option<f64>; 3] = [Some(0.25), None, Some(-0.5)];

/// Asks, goes on, and asks something else of at most five tokens.
fn in_two_conversations(kind: &Kind) -> Vec<EnvironmentEvent> {
    let of =
        |id: &str, attempt: u32, kinds: Vec<Event>| kinds.into_iter().map(|kind| event(id, attempt, kind)).collect();
    match kind {
        Kind::Open(open) => {
            let first = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "First?"}]);
            of(&open.episode_id, open.attempt, vec![opened(first)])
        }
        Kind::Act(Act { episode_id, attempt, turn, .. }) => {
            let reward = REWARDS[*turn as usize - 1];
            let observed = Observed { turn: *turn, reward, ..Observed::default() };
            let kinds = match turn {
                1 => {
                    let content = "Go on.".to_owned();
                    let message =
                        EnvironmentMessage { role: MessageRole::User.into(), content, ..EnvironmentMessage::default() };
                    vec![Event::Observed(Observed {
                        messages: vec![message],
                        request: request(None, None),
                        ..observed
                    })]
                }
                2 => {
                    let other = json!([{"role": "user", "content": "Something else?"}]);
                    vec![Event::Observed(Observed { request: request(Some(other), Some(5)), ..observed })]
                }
                _ => vec![Event::Observed(Observed { done: true, ..observed }), scored(episode_id)],
            };
            of(episode_id, *attempt, kinds)
        }
        Kind::Close(close) if close.reason() == CloseReason::Budget => {
            of(&close.episode_id, close.attempt, vec![scored(&close.episode_id)])
        }
        _ => Vec::new(),
    }
}

/// Says after which sequence it stands.
fn turn(item: &GenerateItem) -> Option<String> {
    let before: usize = item.prefix_segments.iter().map(|segment| segment.token_ids.len()).sum();
    let seed = item.sampling.as_ref().and_then(|sampling| sampling.seed).unwrap();
    Some("x".repeat(before) + &format!("said{}", seed % 1000))
}

async fn table(agent: impl Fn(&Kind) -> Vec<EnvironmentEvent> + Send + Sync + 'static) -> Table {
    let table = Table::start(64).await;
    *table.cluster.generation.state.answers.lock().unwrap() = Some(Box::new(turn));
    *table.environment.state.agent.lock().unwrap() = Some(Box::new(agent));
    table
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_on_is_appended_and_another_conversation_is_another_sequence_of_the_same_sample() {
    bounded(async {
        let table = table(in_two_conversations).await;
        let path = table.run("run", &settings()).await.unwrap();
        let seen = table.cluster.generation.state.seen.lock().unwrap().clone();
        let groups = table.groups();
        for sample in groups.iter().flat_map(|group| &group.samples) {
            use SegmentSource::{Injected, Sampled};
            let sources: Vec<_> = sample.segments.iter().map(|segment| segment.source()).collect();
            assert_eq!(sources, [Sampled, Injected, Sampled, Sampled]);
            assert_eq!(text_of(&sample.segments[1].token_ids), "\nuser\nGo on.\nassistant\n");
            assert!(sample.segments[3].token_ids.len() <= 5, "as many tokens as the agent wants");
            let prompts: Vec<_> =
                sample.contexts.iter().map(|context| (context.segment, text_of(&context.token_ids))).collect();
            let first = "system\nBe brief.\nuser\nFirst?\nassistant\n".to_owned();
            assert_eq!(prompts, [(0, first), (3, "user\nSomething else?\nassistant\n".to_owned())]);
            // What each turn was asked with is what is trained on, token by token.
            let asked: Vec<_> = seen.iter().filter(|item| item.sample_id == sample.sample_id).collect();
            let [one, two, three] = asked[..] else { panic!("{} turns", asked.len()) };
            assert_eq!([&one.prompt_token_ids, &two.prompt_token_ids], [&sample.contexts[0].token_ids; 2]);
            assert_eq!((one.prefix_segments.len(), &two.prefix_segments[..]), (0, &sample.segments[..2]));
            assert_eq!((&three.prompt_token_ids, three.prefix_segments.len()), (&sample.contexts[1].token_ids, 0));
            let seeds: Vec<_> = asked.iter().map(|item| item.sampling.as_ref().unwrap().seed).collect();
            assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2]);
        }
        for line in metrics(&path) {
            assert_eq!((line.get("episodes/sequences/mean"), line.get("episodes/turns/mean")), (Some(2.0), Some(3.0)));
            assert_eq!(line.get("rollout/invalid_samples"), Some(0.0));
        }
        let kept = &read_rollouts(&path, 1).unwrap()[0];
        let roles: Vec<_> = kept.turns.iter().map(|turn| turn.role.as_str()).collect();
        assert_eq!(roles, ["prompt", "assistant", "user", "assistant", "prompt", "assistant"]);
        assert!(kept.turns[4].text.contains("Something else?"));
        let rewards: Vec<_> = kept.turns.iter().map(|turn| turn.reward).collect();
        let [first, second, third] = REWARDS;
        assert_eq!(rewards, [None, first, None, second, None, third], "each beside the turn that earned it");
        let again = self::table(in_two_conversations).await;
        assert_eq!(lines(&again.run("again", &settings()).await.unwrap()), lines(&path));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_template_rewrites_turns_every_request_of_an_agent_has_a_prompt_of_its_own() {
    bounded(async {
        let table = table(in_two_conversations).await;
        *table.cluster.generation.state.answers.lock().unwrap() = Some(Box::new(|item: &GenerateItem| {
            assert!(item.prefix_segments.is_empty(), "each turn has a prompt of its own");
            Some("<think>Hm</think>ok".to_owned())
        }));
        let mut settings = settings();
        settings.turns.earlier_turns = EarlierTurns::Rewrite;
        table.run("run", &settings).await.unwrap();
        for sample in table.groups().iter().flat_map(|group| &group.samples) {
            let prompts: Vec<_> = sample.contexts.iter().map(|context| text_of(&context.token_ids)).collect();
            assert_eq!(sample.contexts.iter().map(|context| context.segment).collect::<Vec<_>>(), [0, 1, 2]);
            assert!(
                prompts[1].ends_with("assistant\nok\nuser\nGo on.\nassistant\n"),
                "reasoning is left out: {}",
                prompts[1]
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_turns_are_used_up_is_scored_as_far_as_it_went() {
    bounded(async {
        let table = table(in_two_conversations).await;
        let mut settings = settings();
        settings.run.steps = 1;
        settings.evaluation.problems = 0;
        settings.turns.max_turns = 1;
        let path = table.run("run", &settings).await.unwrap();
        let line = &metrics(&path)[0];
        assert_eq!(line.get("episodes/used_up/turns"), Some(16.0), "{:?}", line.values);
        assert_eq!(line.get("rollout/invalid_samples"), Some(0.0), "it is no failure");
        let seen = table.environment.state.seen.lock().unwrap();
        let asked = |what: &str| seen.iter().filter(|(_, asked, _)| *asked == what).count();
        assert_eq!((asked("act"), asked("close")), (16, 16));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_turn_has_a_reward_that_is_no_number_breaks_the_protocol() {
    bounded(async {
        let table = table(|kind: &Kind| {
            let mut events = in_two_conversations(kind);
            for event in &mut events {
                if let Some(Event::Observed(observed)) = &mut event.kind {
                    observed.reward = Some(f64::NAN);
                }
            }
            events
        });
        let table = table.await;
        let mut settings = settings();
        settings.evaluation.problems = 0;
        settings.turns.attempts = 1;
        let error = table.run("run", &settings).await.unwrap_err().to_string();
        assert!(error.contains("the reward of a turn is NaN, allowed: a finite number"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_prompt_can_be_made_of_is_no_sample() {
    bounded(async {
        for (conversation, words) in [
            (json!([{"role": "user"}]), "messages[0].content is absent"),
            (json!([{"role": "user", "content": "long ".repeat(100)}]), "what the agent asks first has"),
        ] {
            let table = table(move |kind: &Kind| match kind {
                Kind::Open(open) => vec![event(&open.episode_id, open.attempt, opened(conversation.clone()))],
                _ => Vec::new(),
            });
            let table = table.await;
            let mut settings = settings();
            settings.evaluation.problems = 0;
            let error = table.run("run", &settings).await.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            let seen = table.environment.state.seen.lock().unwrap();
            assert!(seen.iter().all(|(_, _, attempt)| *attempt == 1), "another attempt would ask the same");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_ends_at_the_text_that_an_agent_wants_and_is_told_with_its_tokens() {
    bounded(async {
        let acts = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let heard = std::sync::Arc::clone(&acts);
        let table = table(move |kind| {
            let mut events = in_two_conversations(kind);
            if let Kind::Act(act) = kind {
                heard.lock().unwrap().push(act.clone());
            }
            // Wherever the agent asks, it wants the tokens up to these texts.
            for event in &mut events {
                let request = match &mut event.kind {
                    Some(Event::Opened(opened)) => opened.request.as_mut(),
                    Some(Event::Observed(observed)) => observed.request.as_mut(),
                    _ => None,
                };
                if let Some(request) = request {
                    (request.stop, request.wants_tokens) = (vec!["id".to_owned(), "zzz".to_owned()], true);
                }
            }
            events
        })
        .await;
        table.run("run", &settings()).await.unwrap();
        let acts = acts.lock().unwrap().clone();
        for sample in table.groups().iter().flat_map(|group| &group.samples) {
            let texts: Vec<_> = sample.segments.iter().map(|segment| text_of(&segment.token_ids)).collect();
            assert_eq!(
                texts,
                ["said", "\nuser\nGo on.\nassistant\n", "said", "said"],
                "what is sampled behind is gone"
            );
            assert_eq!(sample.segments[1].token_ids.first(), Some(&1), "the turn is ended");
            let of_sample: Vec<_> = acts.iter().filter(|act| act.episode_id == sample.sample_id).collect();
            assert_eq!(of_sample.len(), 3);
            for (act, segment) in of_sample.iter().zip([0, 2, 3]) {
                let message = act.message.as_ref().unwrap();
                assert_eq!((message.content.as_str(), act.finish_reason()), ("sa", FinishReason::Stop));
                let segment = &sample.segments[segment];
                let ids: Vec<_> = act.tokens.iter().map(|token| token.id).collect();
                let log_probabilities: Vec<_> = act.tokens.iter().map(|token| token.log_probability).collect();
                assert_eq!((&ids, &log_probabilities), (&segment.token_ids, &segment.log_probabilities));
                assert_eq!(act.tokens[0].text, "s");
                assert_eq!(act.prompt_token_ids.len(), act.prompt_tokens as usize);
            }
            assert_eq!(of_sample[0].prompt_token_ids, sample.contexts[0].token_ids);
        }
    })
    .await;
}
