//! The newest samples of a run, throttled to what a person can read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_run::RolloutTurn;
use serde::Serialize;

/// Samples that are kept.
const KEPT: usize = 40;
/// Pause between two samples that are taken.
const PAUSE: Duration = Duration::from_millis(250);
/// The pause after a sample, as a multiple of the time that taking it took: its text is decoded for the page alone,
/// which may cost 0.2 % of the time.
const PAUSE_FACTOR: u32 = 500;
/// Bytes of a text that are kept.
const MAX_BYTES: usize = 4096;
/// Messages of an episode that are kept.
const MAX_TURNS: usize = 16;

/// A sample with its verdict, as text.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct ShownSample {
    /// Counts the samples that were shown, from 1.
    pub(crate) number: u64,
    /// `train` or `evaluation`.
    pub(crate) purpose: &'static str,
    /// The step that it is for; of an evaluation the GRPO steps done before it.
    pub(crate) step: u64,
    /// Name of the sample.
    pub(crate) id: String,
    pub(crate) prompt: String,
    pub(crate) text: String,
    /// First turns of an episode with several.
    pub(crate) turns: Vec<ShownTurn>,
    pub(crate) gold: String,
    /// The verifier's outcome, `invalid` or `failed`.
    pub(crate) verdict: String,
    pub(crate) reason: String,
    pub(crate) reward: Option<f64>,
    /// The parts of the shaped one by name, before their weights, where there are several.
    pub(crate) components: BTreeMap<String, f64>,
    pub(crate) tokens: usize,
    pub(crate) finish: &'static str,
}

/// Something that was said in an episode.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct ShownTurn {
    pub(crate) role: String,
    pub(crate) text: String,
    pub(crate) tokens: u32,
    /// Whether it was sampled, and not added by the environment.
    pub(crate) trained: bool,
    /// What the environment gave for it.
    pub(crate) reward: Option<f64>,
}

impl From<&RolloutTurn> for ShownTurn {
    fn from(turn: &RolloutTurn) -> Self {
        // No more than will be shown, but what says that there is more.
        let text = turn.text.get(..turn.text.floor_char_boundary(MAX_BYTES + 1)).unwrap_or_default().to_owned();
        Self { role: turn.role.clone(), text, tokens: turn.tokens, trained: turn.trained, reward: turn.reward }
    }
}

/// The stream of samples of a run. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SampleStream(Arc<SharedSamples>);

#[derive(Debug, Default)]
struct SharedSamples {
    readers: AtomicUsize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    samples: VecDeque<Arc<ShownSample>>,
    count: u64,
    next: Option<Instant>,
}

/// Somebody who reads the stream. Samples are taken as long as there is one.
#[derive(Debug)]
pub(crate) struct Reading(SampleStream);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SampleStream {
    pub(crate) fn read(&self) -> Reading {
        self.0.readers.fetch_add(1, Ordering::Relaxed);
        Reading(self.clone())
    }

    /// Takes a sample if somebody reads and the last one is long enough ago; `make` is called only then.
    pub(crate) fn offer(&self, make: impl FnOnce() -> Option<ShownSample>) {
        if self.0.readers.load(Ordering::Relaxed) == 0 {
            return;
        }
        let began = Instant::now();
        {
            let mut kept = self.kept();
            if kept.next.is_some_and(|next| began < next) {
                return;
            }
            kept.next = Some(began + PAUSE);
        }
        let Some(sample) = make() else { return };
        let mut kept = self.kept();
        kept.next = Some(Instant::now() + PAUSE.max(began.elapsed() * PAUSE_FACTOR));
        kept.count += 1;
        let number = kept.count;
        kept.samples.push_back(Arc::new(ShownSample { number, ..sample.cut() }));
        if kept.samples.len() > KEPT {
            kept.samples.pop_front();
        }
    }

    /// The samples after a number.
    pub(crate) fn after(&self, number: u64) -> Vec<Arc<ShownSample>> {
        self.kept().samples.iter().filter(|sample| sample.number > number).cloned().collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShownSample {
    fn cut(mut self) -> Self {
        self.turns.truncate(MAX_TURNS);
        let of_turns = self.turns.iter_mut().flat_map(|turn| [&mut turn.role, &mut turn.text]);
        let own = [&mut self.id, &mut self.prompt, &mut self.text, &mut self.gold, &mut self.verdict, &mut self.reason];
        for text in of_turns.chain(own) {
            if text.len() > MAX_BYTES {
                let end = text.floor_char_boundary(MAX_BYTES);
                text.truncate(end);
                text.push_str(" …");
            }
            text.shrink_to_fit();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(text: &str) -> Option<ShownSample> {
        Some(ShownSample { text: text.to_owned(), ..ShownSample::default() })
    }

    #[test]
    fn nothing_is_made_while_nobody_reads() {
        let stream = SampleStream::default();
        stream.offer(|| panic!("nobody reads"));
        let reading = stream.read();
        stream.offer(|| sample("a"));
        stream.offer(|| panic!("the last one was just now"));
        assert_eq!(stream.after(0).len(), 1);
        assert!(stream.after(1).is_empty());
        drop(reading);
        stream.kept().next = None;
        stream.offer(|| panic!("nobody reads any more"));
    }

    #[test]
    fn the_stream_is_bounded_in_number_and_size() {
        let stream = SampleStream::default();
        let _reading = stream.read();
        for _ in 0..3 * KEPT {
            stream.kept().next = None;
            stream.offer(|| sample(&"é".repeat(MAX_BYTES)));
        }
        let kept = stream.after(0);
        assert_eq!((kept.len(), kept[0].number), (KEPT, 2 * KEPT as u64 + 1));
        assert!(kept.iter().all(|sample| sample.text.len() <= MAX_BYTES + 4 && sample.text.ends_with("é …")));
        let turn = ShownTurn { text: "é".repeat(MAX_BYTES), ..ShownTurn::default() };
        let cut = ShownSample { turns: vec![turn; 3 * MAX_TURNS], ..ShownSample::default() }.cut();
        assert!(cut.turns.len() == MAX_TURNS && cut.turns.iter().all(|turn| turn.text.len() <= MAX_BYTES + 4));
    }
}
