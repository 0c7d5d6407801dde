//! Suspicions as audited samples show them: an engine may answer requests for scores with the right weights, and draw
//! from others. What the learner says of a sample under the right weights is known from the audit; each suspicion that is
//! tested takes one more pass over the samples.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evenkeel_statistics::evidence::SuspectedToken;

use super::WeightsProof;
use crate::evidence::weights::{ProofVersions, SupportedSuspicion};
use crate::scorer::{LearnerScorer, LearnerToken, PromptedResponse, PublishedWeights, SampledDistribution};

/// An audited sample, of which one version has drawn tokens.
pub(crate) struct ViewedSample<'a> {
    pub(crate) engine: &'a str,
    pub(crate) asked: PromptedResponse<'a>,
    /// The places of these tokens in the response, with the engine's log-probabilities.
    pub(crate) drawn: Vec<(usize, f32)>,
    /// The learner's view of the response under the right weights.
    pub(crate) view: Vec<LearnerToken>,
}

/// How samples of a step are drawn, and how much they may cost.
pub(crate) struct SampleTest<'a> {
    pub(crate) distribution: &'a SampledDistribution,
    /// One step in this many is audited.
    pub(crate) every: u64,
}

/// What testing samples found.
#[derive(Default)]
pub(crate) struct SampleFindings {
    /// Further passes over samples of one version, and how long the learner computed for them.
    pub(crate) passes: u64,
    pub(crate) computing: Duration,
    /// The engine at fault, and why.
    pub(crate) fault: Option<(String, String)>,
}

impl WeightsProof {
    /// The published weights of a version as engines hold them.
    pub(crate) fn published(&self, version: u64) -> PublishedWeights {
        PublishedWeights { rounded_to: self.settings.engine_type, ..PublishedWeights::of(version) }
    }

    /// Notes that an audited sample of an engine has the learner's bits.
    pub(crate) fn note_equal_sample(&self, engine: &str) {
        self.state().engines.note_equal_sample(engine);
    }

    /// Tests suspicions on audited samples of a step, those that are open in turn: on average `proof.contrasts` a step.
    ///
    /// # Errors
    /// What the learner's scorer says.
    pub(crate) async fn test_samples<L: LearnerScorer>(
        &self,
        mut parts: Vec<(u64, Vec<ViewedSample<'_>>)>,
        test: &SampleTest<'_>,
        learner: &L,
    ) -> Result<SampleFindings, L::Error> {
        let mut found = SampleFindings::default();
        let most = u64::from(self.settings.contrasts).max(1) * test.every;
        parts.sort_by_key(|(_, samples)| std::cmp::Reverse(samples.len()));
        for (version, mut samples) in parts {
            let (versions, suspicions, turn) = {
                let state = self.state();
                samples.retain(|sample| state.engines.tested_by_samples(sample.engine).is_some());
                let engines: BTreeSet<&str> = samples.iter().map(|sample| sample.engine).collect();
                if engines.is_empty() || version < state.anchor {
                    continue;
                }
                let versions = ProofVersions::new(version, state.anchor);
                let suspicions = state.rotation.all().to_vec();
                let turn = state.engines.sample_turn(&suspicions, &engines, versions);
                (versions, suspicions, turn)
            };
            // A cut moves with every change of the weights, also by noise: changes are predicted without it.
            let whole = SampledDistribution { top_p: 1.0, top_k: 0, min_p: 0.0, ..test.distribution.clone() };
            let responses: Vec<_> = samples.iter().map(|sample| sample.asked).collect();
            let mut right = None;
            for suspicion in turn {
                let Some(weights) = suspicion.weights(versions) else { continue };
                if found.passes >= most {
                    return Ok(found);
                }
                self.state().engines.note_turn(&suspicion);
                let weights = PublishedWeights { rounded_to: self.settings.engine_type, ..weights };
                let Ok(supposed) = learner.view(&responses, &weights, &whole).await? else { continue };
                found.passes += 1;
                found.computing += supposed.computing;
                if right.is_none() && test.distribution.is_truncated() {
                    let Ok(view) = learner.view(&responses, &self.published(version), &whole).await? else { break };
                    found.passes += 1;
                    found.computing += view.computing;
                    right = Some(view.responses);
                }
                let mut state = self.state();
                if state.anchor != versions.anchor {
                    return Ok(found);
                }
                let mut tokens: BTreeMap<&str, Vec<Vec<SuspectedToken>>> = BTreeMap::new();
                for (at, (sample, supposed)) in samples.iter().zip(&supposed.responses).enumerate() {
                    let Some(engine) = state.engines.tested_by_samples(sample.engine) else { continue };
                    let view = &sample.view;
                    let right = right.as_ref().map_or(view, |right| &right[at]);
                    // Noise is measured at temperature 1.
                    let divisor = f64::from(test.distribution.temperature.min(1.0));
                    let token = |&(at, reported): &(usize, f32)| {
                        let own = view.get(at)?.log_probability;
                        Some(SuspectedToken {
                            gap: divisor * (f64::from(reported) - own),
                            predicted: divisor * (supposed.get(at)?.log_probability - right.get(at)?.log_probability),
                            weight: engine.weight(own),
                        })
                    };
                    tokens.entry(sample.engine).or_default().push(sample.drawn.iter().filter_map(token).collect());
                }
                let mut fault = state.engines.add_samples(&suspicion, &tokens);
                let mirrored = suspicions.iter().filter(|other| other.mirrored().as_ref() == Some(&suspicion));
                for mirrored in mirrored {
                    tokens.values_mut().flatten().flatten().for_each(|token| token.predicted = -token.predicted);
                    fault = fault.or(state.engines.add_samples(mirrored, &tokens));
                }
                if let Some((engine, SupportedSuspicion { suspicion, share })) = fault {
                    let message = format!(
                        "their log-probabilities are those of other weights than version {}: {}. The engine's answers \
                         to requests for scores may still be right, as where prefill and decode have separate weights",
                        version,
                        suspicion.explain(share, versions.anchor)
                    );
                    found.fault = Some((engine, message));
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }
}
