//! Steps in order of completion: prompts are started in data order by the newest weights, and a step takes the groups
//! that are finished first. A group that would become too old is waited for (`staleness.rs`), so that nothing is lost.

use super::episodes::{Fate, GroupProgress};
use super::event::ClosedStep;
use super::staleness::Filling;
use super::{Action, LoopState, Rules};

impl LoopState {
    /// Begins the next step where that is possible, starts prompts, and gives finished groups to the step. Returns
    /// whether anything has changed.
    pub(super) fn fill_by_completion(&mut self, rules: &Rules, out: &mut Vec<Action>) -> bool {
        let before = out.len();
        if self.engines.evaluating.is_none() && self.engines.ready == self.may_sample(rules) {
            self.engines.usable = self.engines.ready;
        }
        let Some(newest) = self.engines.usable else { return false };
        if self.steps.back().is_none_or(|open| open.is_full) {
            let step = self.next_step();
            if !self.may_begin(rules, step) {
                return false;
            }
            self.open_step(rules, step, newest, out);
        }
        self.take_finished(rules, out);
        self.start_by_newest(rules, newest, out);
        out.len() > before
    }

    /// A group is finished. Dynamic sampling leaves it out where it has no advantage, up to the number of prompts that
    /// a step may try.
    pub(super) fn keep_or_drop(&mut self, rules: &Rules, prompt: u64, zero_advantage: bool, out: &mut Vec<Action>) {
        let may_drop = rules.prompts_limit.saturating_sub(rules.groups);
        let open = self.steps.back_mut().filter(|open| !open.is_full);
        match open.filter(|open| rules.dynamic && zero_advantage && (open.dropped.len() as u64) < may_drop) {
            Some(open) => {
                open.dropped.push(prompt);
                let step = open.step;
                out.push(Action::Drop { step, prompt });
                self.leave(prompt, step, Fate::Dropped);
            }
            None => self.finished.push_back(prompt),
        }
    }

    /// The step takes what is finished, as far as older groups let it.
    fn take_finished(&mut self, rules: &Rules, out: &mut Vec<Action>) {
        while let Some(at) = self.filling() {
            let takes = |prompt: &u64| {
                let by = self.started_by(*prompt);
                by.is_some_and(|by| self.out.lets_take(rules, at, by))
            };
            let Some(prompt) = self.finished.iter().position(takes).and_then(|place| self.finished.remove(place))
            else {
                return;
            };
            let zero_advantage = matches!(self.groups[&prompt].fate, Fate::Finished { zero_advantage: true });
            self.leave(prompt, at.step, Fate::Taken);
            let Some(open) = self.steps.back_mut() else { return };
            out.push(open.take(prompt));
            open.overtaken += u64::from(self.highest > Some(prompt));
            open.filled_up += u64::from(rules.dynamic && zero_advantage);
            if u64::from(open.taken) == rules.groups {
                self.close_full(out);
            }
        }
    }

    fn close_full(&mut self, out: &mut Vec<Action>) {
        let (next_prompt, waiting) = self.prompts.rest(self.out_numbers());
        let Some(open) = self.steps.back_mut() else { return };
        open.is_full = true;
        let is_taken = |group: &GroupProgress| group.step == Some(open.step) && group.fate == Fate::Taken;
        let taken = self.groups.iter().filter(|(_, group)| is_taken(group)).map(|(prompt, _)| *prompt);
        let (first, last) = taken.fold((None, None), |(first, _), prompt| (first.or(Some(prompt)), Some(prompt)));
        self.highest = self.highest.max(last);
        out.push(Action::Close(ClosedStep {
            step: open.step,
            next_prompt,
            waiting,
            filled_up: open.filled_up,
            overtaken: open.overtaken,
            first_prompt: first.unwrap_or(next_prompt),
        }));
    }

    fn start_by_newest(&mut self, rules: &Rules, newest: u64, out: &mut Vec<Action>) {
        let Some(at) = self.filling() else { return };
        let by = self.step_of(newest);
        let mut prompts = self.out.may_start(rules, at, by);
        if self.stops {
            // Only what the step that is being filled needs.
            prompts = prompts.min((rules.groups - at.groups).saturating_sub(self.out.count()));
        }
        for _ in 0..prompts {
            let prompt = self.prompts.take();
            self.out.start(by);
            self.start_group(prompt, by + 1, GroupProgress::new(None, vec![newest], rules.group_size), out);
            self.make_ready(prompt, newest);
        }
    }

    /// A group is in a step from now on, or left out of it.
    fn leave(&mut self, prompt: u64, step: u64, fate: Fate) {
        if let Some(by) = self.started_by(prompt) {
            self.out.remove(by);
        }
        if let Some(group) = self.groups.get_mut(&prompt) {
            (group.step, group.fate) = (Some(step), fate);
        }
    }

    /// The step that is being filled.
    fn filling(&self) -> Option<Filling> {
        let open = self.steps.back().filter(|open| !open.is_full)?;
        Some(Filling { step: open.step, groups: open.taken.into() })
    }

    /// The step whose weights started a group.
    fn started_by(&self, prompt: u64) -> Option<u64> {
        Some(self.step_of(*self.groups.get(&prompt)?.versions.first()?))
    }

    /// Numbers of the groups that are in no step.
    fn out_numbers(&self) -> impl Iterator<Item = u64> {
        self.groups.iter().filter(|(_, group)| group.step.is_none()).map(|(prompt, _)| *prompt)
    }
}
