//! The arithmetic recipe's model, demonstrations and samples, without its services.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use candle_core::Device;
use evenkeel_chat::Prompt;
use evenkeel_data::{Problem, Rules, arithmetic};
use evenkeel_learner::{Example, Response, ResponseGroup};
use evenkeel_model::decode::DecodeStep;
use evenkeel_model::fresh::{FreshModel, FreshShape, character_tokenizer};
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::{Config, Decoder, Parameters};
use evenkeel_seeds::{Stream, Uniforms, rng, seed};
use rand::Rng;

const SEED: u64 = 0;
const PROMPTS: usize = 16;
const GROUP: usize = 16;
const EXAMPLES: u64 = 64;
const MAX_TOKENS: usize = 80;
/// The end of an answer in the character tokenizer.
const END: u32 = 1;

/// The recipe's problems.
pub(crate) struct Recipe {
    problems: Vec<Problem>,
    ids: HashMap<char, u32>,
    characters: HashMap<u32, char>,
}

impl Recipe {
    pub(crate) fn new() -> Result<Self> {
        let tokenizer = character_tokenizer();
        let vocabulary = tokenizer["model"]["vocab"].as_object().context("the tokenizer has a vocabulary")?;
        let mut ids = HashMap::new();
        for (text, id) in vocabulary {
            let mut characters = text.chars();
            if let (Some(character), None) = (characters.next(), characters.next()) {
                ids.insert(character, id.as_u64().context("an id is a number")? as u32);
            }
        }
        let characters = ids.iter().map(|(&character, &id)| (id, character)).collect();
        Ok(Self { problems: arithmetic::dataset(SEED, 256, &Rules::default()).train, ids, characters })
    }

    pub(crate) fn model() -> Result<(Config, Parameters)> {
        let model = FreshModel { shape: FreshShape::default(), seed: SEED };
        let config = model.config();
        let parameters = Parameters::random(&config, SEED, model.shape.deviation as f32, &Device::Cpu)?;
        Ok((config, parameters))
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let id = |character| self.ids.get(&character).copied().with_context(|| format!("no token for {character:?}"));
        text.chars().map(id).collect()
    }

    fn prompt(&self, problem: &Problem) -> Result<Vec<u32>> {
        match &problem.prompt {
            Prompt::Text(text) | Prompt::Either { text, .. } => self.encode(text),
            Prompt::Messages(_) => bail!("the prompt of {} is a conversation, allowed: a text", problem.id),
        }
    }

    /// The demonstrations of a step of the warm start.
    pub(crate) fn examples(&self, step: u64) -> Result<Vec<Example>> {
        let example = |row| {
            let mut rng = rng(SEED, Stream::Demonstration { step, row });
            let problem = &self.problems[rng.random_range(0..self.problems.len())];
            let demonstration = problem.demonstration.as_ref().context("every problem has a demonstration")?;
            let mut response = self.encode(&demonstration.text(&mut rng))?;
            response.push(END);
            Ok(Example { prompt: self.prompt(problem)?, response })
        };
        (0..EXAMPLES).map(example).collect()
    }

    /// Samples the groups of a step at temperature 1 and judges them by their last box.
    pub(crate) fn sample(
        &self,
        step: u64,
        config: &Config,
        parameters: &Parameters,
        threads: usize,
    ) -> Result<Vec<ResponseGroup>> {
        let decoder = Decoder::new(config.clone(), parameters, Cpu::new()?, threads)?;
        let mut rng = rng(SEED, Stream::PromptOrder { epoch: step });
        let chosen: Vec<&Problem> =
            (0..PROMPTS).map(|_| &self.problems[rng.random_range(0..self.problems.len())]).collect();
        let prompts = chosen.iter().map(|problem| self.prompt(problem)).collect::<Result<Vec<_>>>()?;
        let mut drawn: Vec<Drawn> = (0..PROMPTS * GROUP).map(|at| Drawn::new(step, at)).collect();
        let mut caches = drawn.iter().map(|_| decoder.sequence()).collect::<Result<Vec<_>, _>>()?;
        for position in 0..MAX_TOKENS {
            let open = caches.iter_mut().zip(&drawn).enumerate().filter(|(_, (_, drawn))| !drawn.ended());
            let mut steps: Vec<DecodeStep<'_>> = open
                .map(|(at, (cache, drawn))| DecodeStep::new(cache, drawn.last().unwrap_or(&prompts[at / GROUP])))
                .collect();
            if steps.is_empty() {
                break;
            }
            let logits = decoder.step(&mut steps)?;
            drop(steps);
            let open = drawn.iter_mut().filter(|drawn| !drawn.ended());
            for (row, drawn) in logits.chunks_exact(config.vocab_size).zip(open) {
                drawn.draw(row, position);
            }
        }
        let mut groups = Vec::new();
        for (at, (problem, prompt)) in chosen.iter().zip(prompts).enumerate() {
            let gold = problem.task.golds().next().context("every problem has an answer")?;
            let responses = drawn[at * GROUP..][..GROUP].iter().map(|drawn| {
                let text: String = drawn.tokens.iter().filter_map(|id| self.characters.get(id)).collect();
                let reward = f64::from(u8::from(last_box(&text) == Some(gold)));
                Response {
                    mask: vec![true; drawn.tokens.len()],
                    tokens: drawn.tokens.clone(),
                    rollout_logp: drawn.logp.clone(),
                    raw_reward: reward,
                    reward,
                    valid: true,
                    ..Response::default()
                }
            });
            groups.push(ResponseGroup {
                id: problem.id.to_string(),
                prompt,
                hinted_prompt: None,
                responses: responses.collect(),
            });
        }
        Ok(groups)
    }
}

/// What the last `\boxed{...}` holds.
fn last_box(text: &str) -> Option<&str> {
    let (_, rest) = text.rsplit_once("\\boxed{")?;
    rest.split_once('}').map(|(inside, _)| inside)
}

/// A sample so far.
struct Drawn {
    uniforms: Uniforms,
    tokens: Vec<u32>,
    logp: Vec<f32>,
}

impl Drawn {
    fn new(step: u64, at: usize) -> Self {
        let stream = Stream::TrainingSample { step, prompt: (at / GROUP) as u64, sample: (at % GROUP) as u64 };
        Self { uniforms: Uniforms::new(seed(SEED, stream), Stream::Tokens), tokens: Vec::new(), logp: Vec::new() }
    }

    fn ended(&self) -> bool {
        self.tokens.last() == Some(&END)
    }

    /// The token that the cache does not have yet; none before the first.
    fn last(&self) -> Option<&[u32]> {
        self.tokens.last().map(std::slice::from_ref)
    }

    fn draw(&mut self, logits: &[f32], position: usize) {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f64> = logits.iter().map(|z| f64::from(z - largest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let mut left = self.uniforms.at(position as u64) * sum;
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let token = found.unwrap_or(weights.len() - 1);
        self.tokens.push(token as u32);
        self.logp.push((weights[token] / sum).ln() as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demonstrations_and_samples_are_of_the_recipe_and_the_same_each_time() {
        let recipe = Recipe::new().unwrap();
        let example = &recipe.examples(0).unwrap()[0];
        let text: String = example.response.iter().filter_map(|id| recipe.characters.get(id)).collect();
        assert!(last_box(&text).is_some(), "{text}");
        assert_eq!(example.response.last(), Some(&END));

        let (config, parameters) = Recipe::model().unwrap();
        let sample = |threads| recipe.sample(3, &config, &parameters, threads).unwrap();
        let groups = sample(1);
        assert_eq!((groups.len(), groups[0].responses.len()), (PROMPTS, GROUP));
        assert_eq!(groups, sample(2));
    }

    #[test]
    fn the_last_box_is_the_answer() {
        assert_eq!(last_box("\\boxed{1} no. \\boxed{42}"), Some("42"));
        assert_eq!(last_box("\\boxed{4"), None);
        assert_eq!(last_box("42"), None);
    }
}
