//! All samples in flight: each goes to generation, and to verification the moment it ends. Groups come out whole, in any order.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use evenkeel_proto::v1::{FailureCode, FinishReason, Rollout};
use evenkeel_rpc::dispatch::DispatchError;
use evenkeel_rpc::retry::RetryPolicy;
use tokio::task::JoinSet;

use super::check::Expected;
use super::group::{Judgement, Plan, Sample, SampledGroup};
use super::items::PumpSettings;
use super::stall::Stall;
use super::verify::{Verified, verify};
use crate::clients::Outage;
use crate::error::{Halt, RunError};

/// How often services are looked at while samples are in flight.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Longest pause between two verifications of a sample.
const LONGEST_VERIFY_PAUSE: Duration = Duration::from_secs(1);

/// A group in work.
struct Building {
    plan: Plan,
    samples: Vec<Option<Sample>>,
    begun_again: Vec<u32>,
    /// Whether any attempt at the sample took too long.
    late: Vec<bool>,
    left: u32,
}

/// One sample of one group in work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    group: u64,
    sample: u32,
}

enum Done {
    Rolled(Slot, Result<Box<Rollout>, DispatchError>),
    Judged(Slot, Box<Rollout>, usize, Verified),
    /// It waited for engines to come back.
    Rested(Slot),
}

/// Samples in flight. Dropping it takes all of them back.
pub(crate) struct Pump<'a> {
    shared: PumpSettings<'a>,
    expected: Expected,
    waiting: VecDeque<Slot>,
    building: BTreeMap<u64, Building>,
    complete: VecDeque<SampledGroup>,
    tasks: JoinSet<Done>,
    generation: Outage,
    reward: Outage,
    /// Of the engines behind the generation service.
    engines: Outage,
    /// What they said since the last good rollout.
    trouble: Option<String>,
    /// Engines said that they do not have the weights.
    stale: bool,
    /// How often they were moved to them since the last good rollout.
    moves: u32,
    /// Services that are there and end nothing.
    sampling: Stall,
    judging: Stall,
    last_failure: String,
    last_rollout: Instant,
    /// Samples that were placed in their groups, and those among them that took too long.
    ended: usize,
    late: usize,
}

impl<'a> Pump<'a> {
    pub(crate) fn new(shared: PumpSettings<'a>) -> Self {
        let expected = Expected {
            sampling: shared.sampling.clone(),
            policy_version: shared.weights.version,
            vocabulary_size: shared.vocabulary_size,
            trained: shared.trained,
        };
        let (generation, reward) = (shared.services.generation_outage(), shared.services.reward_outage());
        let engines = shared.services.generation_outage();
        let (endpoints, settings) = (&shared.services.endpoints, &shared.services.settings);
        let stall = |service, endpoint, item_ms| Stall::new(service, endpoint, item_ms, settings.wait_ms);
        let sampling = stall("generation", endpoints.generation.clone(), settings.rollout_deadline_ms);
        let judging = stall("reward", endpoints.reward.join(", "), settings.verify_deadline_ms);
        Self {
            shared,
            expected,
            waiting: VecDeque::new(),
            building: BTreeMap::new(),
            complete: VecDeque::new(),
            tasks: JoinSet::new(),
            generation,
            reward,
            engines,
            trouble: None,
            stale: false,
            moves: 0,
            sampling,
            judging,
            last_failure: String::new(),
            last_rollout: Instant::now(),
            ended: 0,
            late: 0,
        }
    }

    /// Adds a group; its samples go out with the next call of [`Pump::next`].
    pub(crate) fn add(&mut self, plan: Plan) {
        let (place, count) = (plan.id.prompt, self.shared.group_size);
        self.waiting.extend((0..count).map(|sample| Slot { group: place, sample }));
        let size = count as usize;
        let building = Building {
            plan,
            samples: vec![None; size],
            begun_again: vec![0; size],
            late: vec![false; size],
            left: count,
        };
        self.building.insert(place, building);
        self.shared.services.events.update(|progress| progress.samples += count as usize);
    }

    /// The next group that is whole. Must not be called when nothing is in work.
    pub(crate) async fn next(&mut self) -> Result<SampledGroup, Halt> {
        let mut watch = tokio::time::interval(WATCH_INTERVAL);
        watch.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let services = self.shared.services;
        loop {
            if let Some(group) = self.complete.pop_front() {
                return Ok(group);
            }
            if self.stale {
                // A generation service that was started anew has the weights of its beginning.
                services.update_weights(self.shared.weights).await?;
                (self.stale, self.moves) = (false, self.moves + 1);
            }
            let next = self.waiting.front().and_then(|&slot| {
                let plan = &self.building.get(&slot.group)?.plan;
                Some((slot, self.shared.generate_item(plan, slot.sample)))
            });
            let submit = async {
                match next {
                    Some((slot, item)) => (slot, services.generation.submit(item).await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                halt = services.stop.now() => return Err(halt),
                Some(done) = self.tasks.join_next() => match done {
                    Ok(Done::Rolled(slot, rollout)) => self.rolled(slot, rollout).await?,
                    Ok(Done::Judged(slot, rollout, tokens, verified)) => self.judged(slot, *rollout, tokens, verified),
                    Ok(Done::Rested(slot)) => self.waiting.push_front(slot),
                    Err(defect) => return Err(RunError::Defect(defect.to_string()).into()),
                },
                (slot, pending) = submit => {
                    self.waiting.pop_front();
                    match pending {
                        Ok(pending) => drop(self.tasks.spawn(async move { Done::Rolled(slot, pending.await.map(Box::new)) })),
                        Err(error) => self.rolled(slot, Err(error)).await?,
                    }
                },
                _ = watch.tick() => {
                    if let Some(trouble) = &self.trouble {
                        self.engines.set_message(trouble);
                    }
                    self.engines.observe(self.trouble.is_none(), &services.stop)?;
                    let idle = services.reward.pending() == 0;
                    self.generation.observe(services.generation.ready(1, Duration::ZERO).await, &services.stop)?;
                    self.sampling.watch(services.generation.pending())?;
                    self.judging.watch(services.reward.pending())?;
                    let judged_or_there = idle || services.reward.ready(1, Duration::ZERO).await;
                    self.reward.observe(judged_or_there, &services.stop)?;
                },
            }
        }
    }

    /// Refuses what was sampled for `what` where more samples took too long than may be left out.
    ///
    /// # Errors
    /// [`RunError::Late`].
    pub(crate) fn check_late(&self, what: &str) -> Result<(), RunError> {
        let allowed = self.shared.services.settings.max_late_share;
        if self.late as f64 <= allowed * self.ended as f64 {
            return Ok(());
        }
        Err(RunError::Late {
            what: what.to_owned(),
            late: self.late,
            samples: self.ended,
            allowed,
            last: self.last_failure.clone(),
        })
    }

    /// When the last rollout ended.
    pub(crate) fn last_rollout(&self) -> Instant {
        self.last_rollout
    }

    /// Why a sample failed last; empty where none did.
    pub(crate) fn last_failure(&self) -> &str {
        &self.last_failure
    }

    /// A rollout ended, one way or the other.
    async fn rolled(&mut self, slot: Slot, rollout: Result<Box<Rollout>, DispatchError>) -> Result<(), Halt> {
        let Some(building) = self.building.get(&slot.group) else { return Ok(()) };
        self.last_rollout = Instant::now();
        self.sampling.ended();
        let rollout = match rollout {
            Ok(rollout) => rollout,
            Err(lost) => {
                // While nothing is connected this is an outage of the service and no failure of the sample.
                let counts = self.shared.services.generation.ready(1, Duration::ZERO).await;
                self.again(slot, counts, lost.to_string(), matches!(lost, DispatchError::Deadline { .. }));
                return Ok(());
            }
        };
        if let Some(failure) = &rollout.failure {
            let message = format!("{}: {}", failure.reason, failure.message);
            match failure.code() {
                FailureCode::InvalidArgument => {
                    let id = building.plan.id.sample(slot.sample);
                    return Err(
                        RunError::Refused { service: "generation", what: format!("sample `{id}`"), message }.into()
                    );
                }
                FailureCode::FailedPrecondition => {
                    self.stale = true;
                    // The sample's own attempt only where engines refuse again and again what they were moved to.
                    let counts = self.moves >= self.shared.services.settings.sample_attempts;
                    self.again(slot, counts, message, false);
                }
                // No engine is there, or all are full with the work of others.
                _ if failure.is_retryable() => {
                    self.trouble = Some(message);
                    let pause = self.shared.services.retrier.policy().initial_pause() * 4;
                    self.tasks.spawn(async move {
                        tokio::time::sleep(pause).await;
                        Done::Rested(slot)
                    });
                }
                code => self.again(slot, true, message, code == FailureCode::DeadlineExceeded),
            }
            return Ok(());
        }
        match self.expected.check(&rollout, &building.plan) {
            Ok(tokens) => {
                (self.trouble, self.moves) = (None, 0);
                self.send_to_verification(slot, rollout, tokens)?;
            }
            Err(message) => self.again(slot, true, format!("engine {}: {message}", rollout.engine), false),
        }
        Ok(())
    }

    fn send_to_verification(&mut self, slot: Slot, rollout: Box<Rollout>, tokens: usize) -> Result<(), Halt> {
        let Some(building) = self.building.get(&slot.group) else { return Ok(()) };
        let item = self.shared.verify_item(&building.plan, &rollout)?;
        let settings = &self.shared.services.settings;
        let initial = Duration::from_millis(settings.backoff_initial_ms);
        let policy =
            RetryPolicy::new(initial, initial.max(LONGEST_VERIFY_PAUSE)).with_max_attempts(settings.verify_attempts);
        let dispatcher = self.shared.services.reward.clone();
        self.tasks.spawn(async move {
            let verified = verify(dispatcher, item, policy).await;
            Done::Judged(slot, rollout, tokens, verified)
        });
        Ok(())
    }

    fn judged(&mut self, slot: Slot, rollout: Rollout, tokens: usize, verified: Verified) {
        self.judging.ended();
        let (judgement, verified_again) = match verified {
            Verified::Judged { outcome, raw_reward, again } => {
                (Judgement::Valid { outcome, rewards: self.shared.shaping.rewards(raw_reward, tokens) }, again)
            }
            Verified::Invalid { reason, again, late } => {
                tracing::warn!(sample = rollout.sample_id, reason, "no verdict, the sample is left out");
                self.last_failure = reason.clone();
                (Judgement::Invalid { reason, late }, again)
            }
        };
        let finish_reason = rollout.finish_reason();
        let sample = Sample {
            id: rollout.sample_id,
            segments: rollout.segments,
            finish_reason,
            tokens,
            judgement,
            verified_again,
            begun_again: 0,
        };
        self.place(slot, sample);
    }

    /// Begins a sample again, or gives it up. What does not count is not the sample's attempt.
    fn again(&mut self, slot: Slot, counts: bool, message: String, late: bool) {
        let Some(building) = self.building.get_mut(&slot.group) else { return };
        let begun = &mut building.begun_again[slot.sample as usize];
        if counts {
            *begun += 1;
            building.late[slot.sample as usize] |= late;
        }
        if *begun < self.shared.services.settings.sample_attempts {
            self.waiting.push_front(slot);
            return;
        }
        let late = building.late[slot.sample as usize];
        let id = building.plan.id.sample(slot.sample).to_string();
        tracing::warn!(sample = id, message, "the sample cannot be had and is left out");
        self.last_failure = message.clone();
        let sample = Sample {
            id,
            segments: Vec::new(),
            finish_reason: FinishReason::Failed,
            tokens: 0,
            judgement: Judgement::Failed { message, late },
            verified_again: 0,
            begun_again: 0,
        };
        self.place(slot, sample);
    }

    fn place(&mut self, slot: Slot, sample: Sample) {
        let Some(building) = self.building.get_mut(&slot.group) else { return };
        (self.ended, self.late) = (self.ended + 1, self.late + usize::from(sample.is_late()));
        let begun_again = building.begun_again[slot.sample as usize];
        building.samples[slot.sample as usize] = Some(Sample { begun_again, ..sample });
        building.left -= 1;
        self.shared.services.events.update(|progress| progress.samples_done += 1);
        if building.left == 0
            && let Some(building) = self.building.remove(&slot.group)
        {
            let samples = building.samples.into_iter().flatten().collect();
            self.complete.push_back(SampledGroup { plan: building.plan, samples });
        }
    }
}
