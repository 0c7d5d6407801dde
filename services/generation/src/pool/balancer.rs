//! The load balancer: each sample goes to the engine with the fewest outstanding tokens, in order of arrival. Plain
//! state, without I/O and without a clock of its own.
//!
//! Only engines that have the current weights take samples, so that any of them can take any sample that waits; while
//! weights change, engines that still have the old ones take samples of the old version, which wait in a queue of their
//! own. An engine with adapters by name goes on with earlier ones beside the current one. The rule itself is
//! [`evenkeel_rpc::balance`], which the dispatcher of item streams follows as well. The rest differs: the dispatcher
//! owns items, their deadlines and attempts and learns its workers' limits, while this one assigns slots on engines by
//! tokens, within sessions, and with affinity: of a group to one engine as long as that is not much busier than others,
//! of a request that goes on to the engine that it names.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use evenkeel_rpc::balance::{Candidate, least_outstanding};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::engine_slots::{EngineSlots, EngineSnapshot};
use super::engine_state::EngineState;
use super::request::{Assignment, EngineId, Rejection, Replies, Reply, SlotRequest, Waiter};
use super::weights::WeightsVersion;
use crate::settings::GenerationSettings;

/// Queue length from which on abandoned requests are removed.
const PURGE_FROM: usize = 1024;

/// Engines by id, and the queue of requests.
#[derive(Debug)]
pub(super) struct Balancer {
    engines: Vec<EngineSlots>,
    weights: Arc<WeightsVersion>,
    queue: VecDeque<Waiter>,
    /// Requests for versions that are not current any more, while engines finish these.
    outgoing: VecDeque<Waiter>,
    purge_at: usize,
    /// Unanswered samples by the version that they ask for.
    wanted: BTreeMap<u64, usize>,
    assignments: u64,
    settings: Arc<GenerationSettings>,
    /// Since when no engine serves or is about to.
    unavailable_since: Option<Instant>,
}

impl Balancer {
    pub(super) fn new(weights: WeightsVersion, settings: Arc<GenerationSettings>) -> Self {
        Self {
            engines: Vec::new(),
            weights: Arc::new(weights),
            queue: VecDeque::new(),
            outgoing: VecDeque::new(),
            purge_at: PURGE_FROM,
            wanted: BTreeMap::new(),
            assignments: 0,
            settings,
            unavailable_since: Some(Instant::now()),
        }
    }

    /// Requests in the queue whose callers still wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.iter().chain(&self.outgoing).filter(|waiter| !waiter.reply.is_closed()).count()
    }

    /// Adds an engine, which gets no samples before it is admitted.
    pub(super) fn add(&mut self, now: Instant) -> EngineId {
        self.engines.push(EngineSlots::new(&self.weights, &self.settings, now));
        self.engines.len() - 1
    }

    pub(super) fn slots(&self, engine: EngineId) -> &EngineSlots {
        &self.engines[engine]
    }

    pub(super) fn weights(&self) -> &Arc<WeightsVersion> {
        &self.weights
    }

    /// Every engine, by id.
    pub(super) fn snapshots(&mut self, now: Instant) -> Vec<EngineSnapshot> {
        self.engines.iter_mut().map(|slots| slots.snapshot(now)).collect()
    }

    /// An engine now, or a reply later.
    pub(super) fn acquire(
        &mut self,
        request: SlotRequest,
        now: Instant,
    ) -> Result<Assignment, oneshot::Receiver<Reply>> {
        let (sender, reply) = oneshot::channel();
        let current = self.weights.number;
        if let Some(requested) = request.version.filter(|&requested| requested != current && self.finishes(requested)) {
            return match self.choose_outgoing(&request, requested) {
                Some(engine) => Ok(self.assign(engine, request.tokens, Some(requested))),
                None => {
                    self.outgoing.push_back(Waiter { request, reply: sender });
                    Err(reply)
                }
            };
        }
        let rejection = match request.version {
            Some(requested) if requested != current => Some(Rejection::Version { requested, current }),
            _ if self.is_unavailable(now) => Some(Rejection::NoEngine),
            _ => None,
        };
        if let Some(rejection) = rejection {
            // The receiver is in this very function.
            let _ = sender.send(Err(rejection));
            return Err(reply);
        }
        if self.queue.is_empty()
            && let Some(engine) = self.choose(&request)
        {
            return Ok(self.assign(engine, request.tokens, None));
        }
        self.queue.push_back(Waiter { request, reply: sender });
        if self.queue.len() >= self.purge_at {
            self.queue.retain(|waiter| !waiter.reply.is_closed());
            self.purge_at = (2 * self.queue.len()).max(PURGE_FROM);
        }
        Err(reply)
    }

    /// A sample left its engine.
    pub(super) fn release(&mut self, engine: EngineId, tokens: u64) -> Replies {
        self.engines[engine].release(tokens);
        self.assign_queued()
    }

    /// Changes an engine; requests in the queue may get it then.
    pub(super) fn update(
        &mut self,
        engine: EngineId,
        now: Instant,
        change: impl FnOnce(&mut EngineSlots, &Arc<WeightsVersion>),
    ) -> Replies {
        change(&mut self.engines[engine], &self.weights);
        self.update_availability(now);
        let mut replies = self.reject_stranded();
        replies.0.extend(self.assign_queued().0);
        replies
    }

    /// Makes other weights current: no engine gets samples of them until it has them. `finish`: requests for the
    /// version that an engine has are served before it gets others. Requests for a version that no engine has or gets
    /// are rejected.
    pub(super) fn set_weights(&mut self, weights: Arc<WeightsVersion>, finish: bool, now: Instant) -> Replies {
        let current = weights.number;
        self.weights = weights;
        self.engines.iter_mut().for_each(|slots| slots.pause_for_weights(finish));
        self.update_availability(now);
        let outgoing = std::mem::take(&mut self.outgoing);
        let waiters = outgoing.into_iter().chain(std::mem::take(&mut self.queue));
        (self.queue, self.outgoing) =
            waiters.partition(|waiter| waiter.request.version.is_none_or(|requested| requested == current));
        let mut replies = self.reject_stranded();
        replies.0.extend(self.assign_outgoing());
        replies
    }

    /// Whether an engine that is to get other weights has nothing left of its own, neither in flight nor waiting. From
    /// then on it takes nothing more of them.
    pub(super) fn finish(&mut self, engine: EngineId) -> bool {
        self.outgoing.retain(|waiter| !waiter.reply.is_closed());
        let slots = &mut self.engines[engine];
        let waits = |waiter: &Waiter| waiter.request.version.is_some_and(|version| slots.finishes(version));
        if !slots.is_idle() || self.outgoing.iter().any(waits) {
            return false;
        }
        slots.end_finishing();
        true
    }

    /// An unanswered sample asks for this version, between its attempts as well.
    pub(super) fn want(&mut self, version: u64) {
        *self.wanted.entry(version).or_default() += 1;
    }

    /// A sample that asked for this version is answered. Returns whether it was the last one.
    pub(super) fn no_longer_wants(&mut self, version: u64) -> bool {
        let Some(count) = self.wanted.get_mut(&version) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.wanted.remove(&version);
        }
        is_last
    }

    /// Forgets what an engine has of earlier adapters that no sample asks for any more. It takes nothing more of them.
    /// Returns whether there was any.
    pub(super) fn forget_earlier(&mut self, engine: EngineId) -> bool {
        let wanted = &self.wanted;
        self.engines[engine].forget_earlier(|version| wanted.contains_key(&version))
    }

    /// Whether at most `most` adapters of an engine are left that samples are drawn from. One that has no sample left,
    /// neither in flight nor waiting, does not count, and the engine takes nothing more of it.
    pub(super) fn has_at_most(&mut self, engine: EngineId, most: usize) -> bool {
        self.outgoing.retain(|waiter| !waiter.reply.is_closed());
        let slots = &mut self.engines[engine];
        if slots.adapters_in_use() <= most {
            return true;
        }
        let outgoing = &self.outgoing;
        let waits = |version| outgoing.iter().any(|waiter| waiter.request.version == Some(version));
        slots.forget_earlier(waits);
        if slots.adapters_in_use() > most {
            slots.finish_own(waits);
        }
        slots.adapters_in_use() <= most
    }

    /// Whether any engine still takes requests for a version that is not current.
    fn finishes(&self, version: u64) -> bool {
        self.engines.iter().any(|slots| slots.finishes(version))
    }

    /// Rejects requests for versions that no engine finishes any more.
    fn reject_stranded(&mut self) -> Replies {
        let current = self.weights.number;
        let (kept, rejected): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.outgoing)
            .into_iter()
            .partition(|waiter| waiter.request.version.is_some_and(|version| self.finishes(version)));
        self.outgoing = kept;
        let reject = |waiter: Waiter| {
            let requested = waiter.request.version.unwrap_or(current);
            (waiter.reply, Err(Rejection::Version { requested, current }))
        };
        Replies(rejected.into_iter().map(reject).collect())
    }

    /// Rejects the queue once there has been no engine for too long.
    pub(super) fn expire(&mut self, now: Instant) -> Replies {
        if !self.is_unavailable(now) {
            return Replies(Vec::new());
        }
        Replies(self.queue.drain(..).map(|waiter| (waiter.reply, Err(Rejection::NoEngine))).collect())
    }

    /// Whether no engine serves or is about to.
    pub(super) fn has_no_engine(&self) -> bool {
        self.unavailable_since.is_some()
    }

    fn is_unavailable(&self, now: Instant) -> bool {
        let limit = self.settings.engine.unavailable_after;
        self.unavailable_since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
    }

    fn update_availability(&mut self, now: Instant) {
        let serves_soon = |slots: &EngineSlots| slots.state().is_serving() || slots.state() == EngineState::Paused;
        let available = self.engines.iter().any(serves_soon);
        self.unavailable_since = if available { None } else { Some(self.unavailable_since.unwrap_or(now)) };
    }

    /// Assigns requests for versions that are not current any more, in order of arrival.
    fn assign_outgoing(&mut self) -> Vec<(oneshot::Sender<Reply>, Reply)> {
        let mut replies = Vec::new();
        let mut kept = VecDeque::new();
        for waiter in std::mem::take(&mut self.outgoing) {
            let engine = waiter.request.version.and_then(|version| self.choose_outgoing(&waiter.request, version));
            match engine {
                _ if waiter.reply.is_closed() => {}
                Some(engine) => {
                    let assignment = self.assign(engine, waiter.request.tokens, waiter.request.version);
                    replies.push((waiter.reply, Ok(assignment)));
                }
                None => kept.push_back(waiter),
            }
        }
        self.outgoing = kept;
        replies
    }

    fn assign_queued(&mut self) -> Replies {
        let mut replies = self.assign_outgoing();
        while let Some(front) = self.queue.front() {
            if !front.reply.is_closed() {
                let Some(engine) = self.choose(&front.request) else { break };
                let tokens = front.request.tokens;
                let assignment = self.assign(engine, tokens, None);
                let waiter = self.queue.pop_front().expect("the front was just looked at");
                replies.push((waiter.reply, Ok(assignment)));
            } else {
                self.queue.pop_front();
            }
        }
        Replies(replies)
    }

    /// `earlier`: the version that it asks for, if that is not the current one.
    fn assign(&mut self, engine: EngineId, tokens: u64, earlier: Option<u64>) -> Assignment {
        self.assignments += 1;
        let session = self.engines[engine].assign(tokens, self.assignments, earlier);
        Assignment { engine, tokens, session }
    }

    /// An engine that finishes a version which is not current any more, and has room.
    fn choose_outgoing(&self, request: &SlotRequest, version: u64) -> Option<EngineId> {
        if let Some(preferred) = self.preferred(request, |slots| slots.can_finish(version)) {
            return Some(preferred);
        }
        let engines = self.engines.iter().enumerate().filter(|(_, slots)| slots.can_finish(version));
        least_outstanding(engines.map(|(engine, slots)| Candidate {
            key: engine,
            outstanding: slots.outstanding_tokens(),
            last_assigned: slots.last_assigned(),
            avoid: request.avoid == Some(engine),
        }))
    }

    /// The engine that the request prefers, where it takes it.
    fn preferred(&self, request: &SlotRequest, takes: impl Fn(&EngineSlots) -> bool) -> Option<EngineId> {
        let preferred = request.preferred.filter(|preferred| request.avoid != Some(*preferred))?;
        self.engines.get(preferred).is_some_and(takes).then_some(preferred)
    }

    fn choose(&self, request: &SlotRequest) -> Option<EngineId> {
        if let Some(preferred) = self.preferred(request, EngineSlots::has_capacity) {
            return Some(preferred);
        }
        let engines = self.engines.iter().enumerate();
        let candidates = engines.clone().filter(|(_, slots)| slots.has_capacity());
        let least = least_outstanding(candidates.map(|(engine, slots)| Candidate {
            key: engine,
            outstanding: slots.outstanding_tokens(),
            last_assigned: slots.last_assigned(),
            avoid: request.avoid == Some(engine),
        }))?;
        let affinity_samples = u64::from(self.settings.affinity_samples);
        let Some(group) = request.group.as_deref().filter(|_| affinity_samples > 0 && self.engines.len() > 1) else {
            return Some(least);
        };
        let serving = engines.filter(|(_, slots)| slots.state().is_serving());
        let (preferred, slots) = serving.max_by_key(|&(engine, _)| rendezvous_score(group, engine))?;
        let slack = affinity_samples.saturating_mul(request.tokens);
        let close = slots.outstanding_tokens() <= self.engines[least].outstanding_tokens().saturating_add(slack);
        let takes = slots.has_capacity() && close && request.avoid != Some(preferred);
        Some(if takes { preferred } else { least })
    }
}

/// Rendezvous hashing: a group prefers the engine with the highest score. When an engine leaves, only its own groups
/// move.
fn rendezvous_score(group: &str, engine: EngineId) -> u64 {
    let mut hasher = DefaultHasher::new();
    (group, engine).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[path = "balancer_tests.rs"]
mod tests;
