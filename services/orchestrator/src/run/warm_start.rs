//! The supervised warm start.

use std::time::Instant;

use evenkeel_proto::v1::{RunState, SleepLevel, StepKind, SupervisedBatch, SupervisedExample, TrainHeader, TrainKind};

use super::drive::Driver;
use super::position::Position;
use crate::clients::Feed;
use crate::error::{Halt, RunError};
use crate::events::{Event, Outcome};
use crate::metrics::{Line, warm_start_values};

/// Examples in one message: far below any limit of a message, and enough that messages cost nothing.
const EXAMPLES_PER_MESSAGE: usize = 64;

impl Driver {
    /// Does what is left of it. Stopped between two steps it keeps nothing: checkpoints are of GRPO steps.
    pub(super) async fn warm_start(&mut self, position: &mut Position) -> Result<Outcome, Halt> {
        let steps = self.recipe.warm_start.steps;
        if position.warm_start_steps >= steps {
            return Ok(Outcome::Completed);
        }
        self.events.enter(RunState::WarmStart);
        if self.engines_rest() {
            // Engines may still have the weights that they began with, and those nobody could give them again.
            self.services.sleep(SleepLevel::Offload).await?;
        }
        while position.warm_start_steps < steps {
            if self.stop.is_requested() {
                return Ok(Outcome::Stopped);
            }
            self.warm_start_step(position).await?;
        }
        Ok(Outcome::Completed)
    }

    async fn warm_start_step(&mut self, position: &mut Position) -> Result<(), Halt> {
        let (began, step) = (Instant::now(), position.warm_start_steps);
        let examples = self.recipe.warm_start.examples_per_step;
        let feed = Feed::new(TrainHeader {
            run_id: self.directory.run_id().to_owned(),
            step,
            base_version: position.version,
            settings_hash: self.hash(),
            kind: TrainKind::Supervised.into(),
            expected_examples: examples,
            seed: self.recipe.run.seed,
            ..TrainHeader::default()
        });
        for batch in self.examples(step, examples)?.chunks(EXAMPLES_PER_MESSAGE) {
            feed.push(SupervisedBatch { examples: batch.to_vec() });
        }
        feed.close();
        let report = self.services.train(&feed, &format!("warm-start step {step}")).await?;

        let mut line = Line::new(StepKind::WarmStart, step, report.version);
        warm_start_values(&mut line, &report, began.elapsed());
        let (path, lines) = (self.warm_starts.path().to_owned(), &mut self.warm_starts);
        self.services.retrier.write(&path, || lines.append(&line)).await?;
        (position.warm_start_steps, position.version) = (step + 1, report.version);
        self.tell_position(position);
        self.events.emit(Event::Line(line));
        Ok(())
    }

    fn examples(&self, step: u64, count: u32) -> Result<Vec<SupervisedExample>, RunError> {
        let Some(demonstrations) = &self.demonstrations else { return Ok(Vec::new()) };
        let example = |row| {
            let example = demonstrations.at(step, row, &self.tokenizer)?;
            Ok(SupervisedExample {
                example_id: example.id,
                prompt_token_ids: example.prompt_token_ids,
                response_token_ids: example.response_token_ids,
            })
        };
        (0..count).map(example).collect()
    }
}
