//! Steps in data order: a step takes the next prompts, whichever finish first, and the weights of each segment follow
//! from its place alone.

use super::episodes::{Fate, GroupProgress};
use super::event::ClosedStep;
use super::{Action, LoopState, Rules};

impl LoopState {
    /// Begins the next step where that is possible, and decides about the groups of those that have begun. Returns
    /// whether anything has changed.
    pub(super) fn fill_in_data_order(&mut self, rules: &Rules, out: &mut Vec<Action>) -> bool {
        let before = out.len();
        for at in 0..self.steps.len() {
            if !self.steps[at].is_full {
                self.take_next(rules, at, out);
                self.start_prompts(rules, at, out);
            }
        }
        if let Some(version) = self.may_sample(rules) {
            self.begin_step(rules, version, out);
        }
        out.len() > before
    }

    /// The step after the last one that has begun.
    pub(super) fn next_step(&self) -> u64 {
        self.steps.back().map_or(self.step, |open| open.step) + 1
    }

    /// Whether more steps have samples out than there are weights for one.
    pub(super) fn has_too_many_steps(&self, rules: &Rules) -> bool {
        self.steps.iter().filter(|open| !open.is_closed).count() as u64 > rules.places()
    }

    /// A step begins once the engines are on their way to its first weights, and once everything before it has begun.
    /// With dynamic sampling its first prompt is known only when the step before is full.
    fn begin_step(&mut self, rules: &Rules, version: u64, out: &mut Vec<Action>) {
        let step = self.next_step();
        let is_known = !rules.dynamic || self.steps.back().is_none_or(|open| open.is_full);
        let has_weights = self.version_of(rules.sampled_by(step, 0)) <= version;
        if !has_weights || !is_known || !self.left.have_begun(version) || self.has_too_many_steps(rules) {
            return;
        }
        if self.may_begin(rules, step) {
            self.open_step(rules, step, version, out);
            self.start_prompts(rules, self.steps.len() - 1, out);
        }
    }

    /// Prompts to be in flight or finished by now. Every group without an advantage needs a replacement, whatever its
    /// position: no sample is wasted, and which prompts are tried does not depend on timing.
    fn start_prompts(&mut self, rules: &Rules, at: usize, out: &mut Vec<Action>) {
        let open = &self.steps[at];
        let replacements = if rules.dynamic { open.zero_advantage } else { 0 };
        let end = open.first + (rules.groups + replacements).min(rules.prompts_limit);
        while self.steps[at].started < end && !self.steps[at].is_full {
            let step = self.steps[at].step;
            let position = self.steps[at].started - self.steps[at].first;
            let prompt = self.prompts.take();
            self.steps[at].started += 1;
            let segments = rules.segments_of(position);
            let places = segments.first..segments.first + u64::from(segments.count);
            let versions: Vec<u64> = places.map(|place| self.version_of(rules.sampled_by(step, place))).collect();
            let every = || std::iter::repeat_n(&versions, rules.group_size as usize).flatten();
            every().for_each(|&version| self.left.add(version));
            self.start_group(prompt, step, GroupProgress::new(Some(step), versions, rules.group_size), out);
            if let Some(through) = self.engines.version {
                self.make_ready(prompt, through);
            }
        }
    }

    /// Takes the finished groups that are next in data order, or leaves them out.
    fn take_next(&mut self, rules: &Rules, at: usize, out: &mut Vec<Action>) {
        let open = &mut self.steps[at];
        let step = open.step;
        while let Some(group) = self.groups.get_mut(&open.next).filter(|group| group.step == Some(step)) {
            let Fate::Finished { zero_advantage } = group.fate else { break };
            let prompt = open.next;
            open.next += 1;
            if rules.dynamic && zero_advantage {
                group.fate = Fate::Dropped;
                open.dropped.push(prompt);
                out.push(Action::Drop { step, prompt });
            } else {
                group.fate = Fate::Taken;
                out.push(open.take(prompt));
            }
        }
        // No prompt is left to try: fill the step up, so that its size stays what the settings say.
        if rules.dynamic && open.next - open.first == rules.prompts_limit {
            let missing = rules.groups.saturating_sub(open.taken.into()).min(open.dropped.len() as u64);
            open.filled_up = missing;
            let fill: Vec<u64> = open.dropped.drain(..missing as usize).collect();
            out.extend(fill.into_iter().map(|prompt| open.take(prompt)));
        }
        if u64::from(open.taken) >= rules.groups {
            open.is_full = true;
            out.push(Action::Close(ClosedStep {
                step,
                next_prompt: open.next,
                waiting: Vec::new(),
                filled_up: open.filled_up,
                overtaken: 0,
                first_prompt: open.first,
            }));
        }
    }
}
