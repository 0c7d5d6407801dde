//! The learner: a model, its optimizer, and what it has done so far.

use std::path::{Path, PathBuf};

use candle_core::Tensor;
use evenkeel_model::folder::load_parameters;
use evenkeel_model::{Config, NetworkOptions, Packed, Parameters, Scores, Train, network};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{LearnerError, Result};
use crate::optimizer::Moments;
use crate::settings::LearnerSettings;
use crate::step::{Planned, PolicyStep, pack_all};

/// Which of the two optimizers the moments belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// Supervised warm start.
    Supervised,
    /// Policy steps.
    Policy,
}

/// Weights and optimizer as they were before a step.
pub(crate) struct Snapshot {
    weights: Vec<Tensor>,
    moments: Moments,
    phase: Phase,
}

/// A model in training.
pub struct Learner {
    pub(crate) settings: LearnerSettings,
    pub(crate) network: Box<dyn Train>,
    /// The weights that the run began with, frozen, where a KL term refers to them.
    reference: Option<Box<dyn Train>>,
    pub(crate) moments: Moments,
    pub(crate) phase: Phase,
    /// Batches taken so far, supervised and policy: the version of the weights.
    pub(crate) steps: u64,
    /// `config.json` as it was read, to be written beside new weights.
    pub(crate) config_json: Value,
    /// Where tokenizer files are copied from when weights are published.
    pub(crate) source: Option<PathBuf>,
}

impl Learner {
    /// Opens a Hugging Face folder. With a KL term its weights stay in memory once more as the reference.
    ///
    /// # Errors
    /// Settings out of range, a device that is not there, or a folder that is not a model that this can train.
    pub fn open(folder: &Path, settings: LearnerSettings) -> Result<Self> {
        settings.validate()?;
        let device = settings.compute.open()?;
        let (config, config_json) = Config::load(folder)?;
        let parameters = load_parameters(folder, &config, &device)?;
        Self::build(config, config_json, parameters, Some(folder.to_owned()), settings)
    }

    /// A learner of parameters in memory, on whatever device they lie.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn new(config: Config, parameters: Parameters, settings: LearnerSettings) -> Result<Self> {
        settings.validate()?;
        let json = config.to_json();
        Self::build(config, json, parameters, None, settings)
    }

    fn build(
        config: Config,
        config_json: Value,
        parameters: Parameters,
        source: Option<PathBuf>,
        settings: LearnerSettings,
    ) -> Result<Self> {
        let options = settings.compute.network_options();
        let open = |parameters: Parameters, options: NetworkOptions| {
            network(config.clone(), parameters, settings.compute.dtype.into(), options)
        };
        let reference = match settings.objective.kl_coefficient {
            0.0 => None,
            _ => Some(open(parameters.deep_copy()?, options)?),
        };
        let moments = Moments::zeros(&parameters)?;
        let network = open(parameters, options)?;
        tracing::info!(
            parameters = network.parameters().count(),
            threads = options.threads,
            instructions = evenkeel_model::kernels::cpu::instructions(),
            formula = settings.objective.formula(),
            "learner ready"
        );
        Ok(Self { settings, network, reference, moments, phase: Phase::Policy, steps: 0, config_json, source })
    }

    /// The settings.
    pub fn settings(&self) -> &LearnerSettings {
        &self.settings
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        self.network.config()
    }

    /// The fp32 weights as they are now.
    pub fn parameters(&self) -> &Parameters {
        self.network.parameters()
    }

    /// Steps done, which is the version of the weights.
    pub fn version(&self) -> u64 {
        self.steps
    }

    /// Sets the seed of everything random from the next step on: see [`LearnerSettings::seed`].
    pub fn set_seed(&mut self, seed: u64) {
        self.settings.seed = seed;
    }

    /// Begins a policy step.
    pub fn step(&mut self) -> PolicyStep<'_> {
        PolicyStep::new(self)
    }

    /// A whole policy step over groups that are all there.
    ///
    /// # Errors
    /// As [`PolicyStep::add`] and [`PolicyStep::finish`].
    pub fn train(&mut self, groups: impl IntoIterator<Item = crate::Group>) -> Result<crate::StepReport> {
        let mut step = self.step();
        for group in groups {
            step.add(group)?;
        }
        step.finish()
    }

    /// Log-probabilities and entropies of the tokens behind each prompt, under the weights as they are now: one entry
    /// for each (prompt, response).
    ///
    /// # Errors
    /// An empty prompt or response, an id outside the vocabulary, a sequence longer than the context: by its index.
    pub fn score(&self, sequences: &[(&[u32], &[u32])], temperature: f32) -> Result<Vec<Scores>> {
        let mut whole = Vec::with_capacity(sequences.len());
        for (index, (prompt, response)) in sequences.iter().enumerate() {
            for (field, ids) in [("prompt", prompt), ("response", response)] {
                if ids.is_empty() {
                    let field = format!("{field} of sequence {index}");
                    return Err(LearnerError::input(field, "empty", "1 or more token ids"));
                }
            }
            let ids = [*prompt, *response].concat();
            evenkeel_model::check_ids(self.config(), &ids)
                .map_err(|error| crate::group::in_place(error, &format!("sequence {index}")))?;
            whole.push((ids, (prompt.len()..prompt.len() + response.len()).collect::<Vec<_>>()));
        }
        self.score_with(&*self.network, &whole, temperature)
    }

    /// Makes the moments those of a phase: entering one begins with fresh ones.
    pub(crate) fn enter(&mut self, phase: Phase) -> Result<()> {
        if self.phase != phase {
            self.moments = Moments::zeros(self.network.parameters())?;
            self.phase = phase;
        }
        Ok(())
    }

    pub(crate) fn micro_batch_tokens(&self) -> usize {
        self.settings.compute.resolved_micro_batch_tokens()
    }

    pub(crate) fn pack(&self, responses: &[Planned]) -> Result<(Vec<Vec<usize>>, Vec<Packed>)> {
        pack_all(self.config(), &sequences_of(responses), self.micro_batch_tokens())
    }

    /// Log-probabilities of trainable tokens under the weights as they are now.
    pub(crate) fn score_planned(&self, responses: &[Planned]) -> Result<Vec<Vec<f32>>> {
        let scores = self.score_with(&*self.network, &sequences_of(responses), self.settings.temperature)?;
        Ok(scores.into_iter().map(|scores| scores.logp).collect())
    }

    /// Gives each response its reference log-probabilities, where a KL term needs them.
    pub(crate) fn add_reference(&self, responses: &mut [Planned]) -> Result<()> {
        let Some(reference) = &self.reference else { return Ok(()) };
        let scores = self.score_with(&**reference, &sequences_of(responses), self.settings.temperature)?;
        for (response, scores) in responses.iter_mut().zip(scores) {
            response.reference_logp = Some(scores.logp);
        }
        Ok(())
    }

    fn score_with(
        &self,
        network: &dyn Train,
        sequences: &[(Vec<u32>, Vec<usize>)],
        temperature: f32,
    ) -> Result<Vec<Scores>> {
        let (cuts, packed) = pack_all(self.config(), sequences, self.micro_batch_tokens())?;
        let scores = network.score(&packed, temperature)?;
        let mut out = vec![Scores::default(); sequences.len()];
        for ((cut, batch), scores) in cuts.iter().zip(&packed).zip(scores) {
            for (sequence, &index) in cut.iter().enumerate() {
                let range = batch.scored(sequence);
                out[index] =
                    Scores { logp: scores.logp[range.clone()].to_vec(), entropy: scores.entropy[range].to_vec() };
            }
        }
        Ok(out)
    }

    /// What [`restore`](Self::restore) brings back after a step of so many updates that failed. On a CPU an update works in
    /// place and cannot fail half way, so that only the second one needs a copy (12 bytes for each parameter); on a GPU
    /// every update makes new tensors, and holding the old ones is enough.
    pub(crate) fn snapshot(&self, updates: usize) -> Result<Option<Snapshot>> {
        let on_cpu = self.parameters().get(0).device().is_cpu();
        if on_cpu && updates <= 1 {
            return Ok(None);
        }
        let keep = |tensors: &[Tensor]| match on_cpu {
            true => tensors.iter().map(Tensor::copy).collect::<Result<Vec<_>, _>>(),
            false => Ok(tensors.to_vec()),
        };
        Ok(Some(Snapshot {
            weights: keep(self.parameters().values())?,
            moments: Moments {
                first: keep(&self.moments.first)?,
                second: keep(&self.moments.second)?,
                updates: self.moments.updates,
            },
            phase: self.phase,
        }))
    }

    /// Makes weights, moments and phase what they were, and forgets gradients.
    pub(crate) fn restore(&mut self, snapshot: Option<Snapshot>) {
        self.network.discard_gradients();
        if let Some(Snapshot { weights, moments, phase }) = snapshot {
            self.network.parameters_mut().values_mut().clone_from_slice(&weights);
            (self.moments, self.phase) = (moments, phase);
        }
    }

    /// Replaces the weights, as a checkpoint does.
    pub(crate) fn replace(&mut self, values: Vec<Tensor>) -> Result<()> {
        let device = self.parameters().get(0).device().clone();
        let parameters = Parameters::new(self.network.config(), values, &device)?;
        *self.network.parameters_mut() = parameters;
        self.network.discard_gradients();
        Ok(())
    }
}

fn sequences_of(responses: &[Planned]) -> Vec<(Vec<u32>, Vec<usize>)> {
    responses.iter().map(|response| (response.ids(), response.scored().collect())).collect()
}
