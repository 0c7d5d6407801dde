//! Plans: what a recipe takes of a number of cards, by arithmetic from their makers' figures. Nothing is measured and
//! nothing starts.

mod card;
mod estimate;

use anyhow::{Context, Result};
use evenkeel_host::Size;
use evenkeel_learner::{AttentionPath, MemoryPlan};
use evenkeel_model::Config;
use evenkeel_proto::FieldError;
use serde::Serialize;

use super::cost::{cache_bytes_a_token, disk, step_cost, type_bytes};
use super::flops::Passes;
use super::memory::asleep_bytes;
use super::model::parameters;
use super::volumes::Volumes;
use crate::named_model::Say;
use crate::recipe::Recipe;
pub use card::Card;
use estimate::{Division, StepPart, Work};

/// What a plan is made for.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// Cards in all: one for the learner, the others for engines; with one card both take turns on it.
    pub gpus: u64,
    /// The name of the card, as [`Card::names`] lists it.
    pub card: String,
    /// Mean length of a prompt.
    pub prompt_tokens: f64,
    /// Mean length of a response; absent for half of `sampling.max_tokens`.
    pub answer_tokens: Option<f64>,
    /// Gigabytes a second at which new weights leave the learner's machine, for all engines together.
    pub network: f64,
}

/// The time of a step and the memory of its cards, estimated. As JSON it is what `evenkeel plan --json` prints.
#[derive(Debug, Serialize)]
pub struct Plan {
    recipe: String,
    cards: u64,
    card: &'static str,
    division: Division,
    prompt_tokens: f64,
    answer_tokens: f64,
    parts: Vec<StepPart>,
    step_seconds: f64,
    run_hours: f64,
    /// Bytes that the learner's card has to hold.
    learner_bytes: u64,
    /// Bytes of weights on each card of an engine.
    engine_weights_bytes: u64,
    card_bytes: u64,
    /// Verdicts a second that reward workers are asked for while engines sample.
    verdicts_a_second: f64,
    overlaps: bool,
    /// Seconds of a step whose samples are drawn while the learner trains.
    overlapped_seconds: f64,
    /// Bytes of volumes, and of the learner's host memory.
    volumes: Volumes,
}

impl Plan {
    /// The plan of a recipe that is called `name`. `say` is told how far the download of a model is.
    ///
    /// # Errors
    /// A number that is out of range, a card that is unknown, cards that do not hold an engine's weights, and a model
    /// whose configuration cannot be read.
    pub fn of(recipe: &Recipe, name: String, options: &PlanRequest, say: Say) -> Result<Self> {
        let card = Card::of(&options.card)
            .ok_or_else(|| FieldError::quoted("--card", &options.card, Card::names().join(", ")))?;
        Self::of_shape(recipe, &shape(recipe, say)?, name, options, card)
    }

    fn of_shape(recipe: &Recipe, config: &Config, name: String, options: &PlanRequest, card: Card) -> Result<Self> {
        let longest = f64::from(recipe.sampling.max_tokens);
        let answer = options.answer_tokens.unwrap_or(longest / 2.0);
        for (field, value, most) in
            [("--answer-tokens", answer, longest), ("--prompt-tokens", options.prompt_tokens, 1e9)]
        {
            if !(value > 0.0 && value <= most) {
                return Err(FieldError::new(field, value, format!("above 0, and at most {most}")).into());
            }
        }
        if !(options.network > 0.0 && options.network.is_finite()) {
            return Err(FieldError::new("--network", options.network, "gigabytes a second above 0").into());
        }
        let mut learner = recipe.learner.clone();
        if learner.compute.device == "cpu" {
            learner.compute.device = "cuda".to_owned();
        }
        if !card.has_fused_attention {
            learner.compute.attention = AttentionPath::Blocks;
        }
        let tokens = options.prompt_tokens + longest;
        let memory = MemoryPlan::of(config, &learner, tokens as usize)?;
        let volumes = Volumes::of(&Recipe { learner, ..recipe.clone() }, config, tokens as u64)?;
        let work = Work { resident: memory.resident() as f64, ..work(recipe, config, options, answer) };
        let division = estimate::divide(options.gpus, card, work.weights, work.resident).ok_or_else(|| {
            let weights = Size(work.weights as u64);
            let card = card.name;
            FieldError::new(
                "--gpus",
                options.gpus,
                format!("as many cards ({card}) as hold the {weights} of an engine's weights beside the learner's"),
            )
        })?;
        let (parts, step_seconds) = estimate::step(&work, card, division);
        let generation = parts[0].seconds;
        let overlapped_seconds = estimate::step(&Work { overlaps: true, ..work }, card, division).1;
        Ok(Self {
            recipe: name,
            cards: options.gpus,
            card: card.name,
            division,
            prompt_tokens: options.prompt_tokens,
            answer_tokens: answer,
            parts,
            step_seconds,
            run_hours: recipe.run.steps as f64 * step_seconds / 3600.0,
            learner_bytes: memory.total() + asleep_bytes(recipe, Some(options.gpus)),
            engine_weights_bytes: (work.weights / division.cards_an_engine as f64) as u64,
            card_bytes: bytes(card),
            verdicts_a_second: work.samples / generation,
            overlaps: work.overlaps,
            overlapped_seconds,
            volumes,
        })
    }

    /// Whether the learner fits its card.
    pub fn learner_fits(&self) -> bool {
        self.learner_bytes <= self.card_bytes
    }

    /// The share of a step in which engines wait, if it is most of it and they could sample meanwhile.
    fn idle_share(&self) -> Option<f64> {
        let idle = 1.0 - self.parts[0].seconds / self.step_seconds;
        (idle > 0.5 && !self.overlaps && !self.division.is_shared).then_some(idle)
    }

    /// The plan for a terminal.
    pub fn to_text(&self) -> String {
        let Self { recipe, cards, card, division, step_seconds, .. } = self;
        let engines = match (division.is_shared, division.cards_an_engine) {
            (true, _) => "the learner and an engine that sleeps while it trains".to_owned(),
            (false, 1) => format!("1 for the learner, {} for engines", division.engines),
            (false, each) => format!("1 for the learner, {} engines of {each}", division.engines),
        };
        let idle = if division.idle > 0 { format!(", {} idle", division.idle) } else { String::new() };
        let mut text = format!("{recipe} on {cards} x {card}: {engines}{idle}\n");
        text += &format!(
            "prompts of {:.0} and responses of {:.0} tokens on average\n\n",
            self.prompt_tokens, self.answer_tokens
        );
        for StepPart { what, seconds, bound_by } in &self.parts {
            text += &format!("{what:<20}{seconds:>9.1} s   {bound_by}\n");
        }
        let how = if self.overlaps { "the longer of the first two, and the third" } else { "one after the other" };
        text += &format!("{:<20}{step_seconds:>9.1} s   {how}\n", "a step");
        text += &format!("{:<20}{:>9.1} h   without evaluations\n\n", "the run", self.run_hours);
        let fits = if self.learner_fits() { "" } else { ": does not fit (docs/gpu.md lists what takes less)" };
        text += &format!(
            "memory of the learner's card    {} of {}{fits}\n",
            Size(self.learner_bytes),
            Size(self.card_bytes)
        );
        text += &format!("weights on each engine's card   {}\n", Size(self.engine_weights_bytes));
        text += &format!("verdicts a second               {:.1}\n", self.verdicts_a_second);
        let kept =
            |bytes: Option<u64>| bytes.map_or_else(|| "all are kept".to_owned(), |bytes| Size(bytes).to_string());
        text += &format!("disk for checkpoints            {}\n", kept(self.volumes.checkpoints));
        text += &format!("disk for published weights      {}\n", kept(self.volumes.weights));
        text += &format!("disk for rollouts               {}\n", Size(self.volumes.rollouts));
        text += &format!("host memory of the learner      {}\n\n", Size(self.volumes.host));
        if let Some(idle) = self.idle_share() {
            text += &format!(
                "engines idle {:.0} % of a step: with pipeline.max_lag = 1 and sampling.engines_while_training = \"awake\" a \
                 step takes {:.1} s\n\n",
                100.0 * idle,
                self.overlapped_seconds
            );
        }
        text + "an estimate from the manufacturer's figures: docs/scaling.md explains its method and its accuracy\n"
    }
}

fn bytes(card: Card) -> u64 {
    (card.memory_gib * f64::from(1 << 30)) as u64
}

/// The model's shape: of its folder, of which only config.json is read, or of the fresh model.
fn shape(recipe: &Recipe, say: Say) -> Result<Config> {
    match recipe.model.folder(say)? {
        None => Ok(recipe.fresh_model().config()),
        Some(folder) => {
            let (config, _) =
                Config::load(&folder).with_context(|| format!("model.path{}", super::published::hint(&folder)))?;
            Ok(config)
        }
    }
}

fn work(recipe: &Recipe, config: &Config, options: &PlanRequest, answer: f64) -> Work {
    let passes = Passes::of(config);
    let prompt = options.prompt_tokens;
    let step = step_cost(recipe, config, passes, prompt, answer);
    let prompts = f64::from(recipe.sampling.prompts_per_step);
    let samples = step.samples as f64;
    let stored = type_bytes(recipe.model.publish_type);
    let decoded = step.generation_flops - prompts * passes.forward(prompt);
    Work {
        samples,
        prompt_tokens: prompt,
        answer_tokens: answer,
        prefill_flops: prompts * passes.forward(prompt),
        token_flops: decoded / (samples * answer),
        update_flops: step.training_flops + step.scoring_flops,
        weights: (stored * parameters(config)) as f64,
        published: disk(recipe, config).published as f64,
        // Known once the learner's memory is planned.
        resident: 0.0,
        token_cache: cache_bytes_a_token(config, stored) as f64,
        overlaps: recipe.pipeline.max_lag > 0,
        network: options.network * 1e9,
    }
}

#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod tests {
    use super::super::memory::of_run;
    use super::super::sets::DataFacts;
    use super::*;

    /// A model of the shape of Qwen3-0.6B, 256 prompts a step.
    fn recipe(set: &[&str]) -> Recipe {
        let shape =
            ["hidden_size=1024", "intermediate_size=3072", "layers=28", "heads=16", "kv_heads=8", "head_dim=128"];
        let shape = shape.into_iter().chain(["vocabulary_size=151936", "context_tokens=16384"]);
        let shape = shape.map(|setting| format!("model.fresh.{setting}"));
        let step = ["sampling.prompts_per_step=256", "sampling.max_tokens=8192", "learner.old_logp=rollout"];
        let set: Vec<String> = shape.chain(step.iter().chain(set).map(|&setting| setting.to_owned())).collect();
        crate::recipe::load(&["arithmetic".to_owned()], &set).unwrap().settings
    }

    /// The plan of a recipe for that many H100.
    fn of_h100(recipe: &Recipe, gpus: u64, prompt_tokens: f64) -> Plan {
        let request = PlanRequest { gpus, card: "h100".to_owned(), prompt_tokens, answer_tokens: None, network: 5.0 };
        Plan::of(recipe, "test".to_owned(), &request, |_| {}).unwrap()
    }

    fn plan(gpus: u64, max_lag: u32) -> String {
        of_h100(&recipe(&[&format!("pipeline.max_lag={max_lag}")]), gpus, 256.0).to_text()
    }

    #[test]
    fn the_learners_card_holds_what_the_dry_run_says() {
        let on_gpu = ["learner.compute.device=cuda", "learner.compute.dtype=bf16"];
        let mut needed = Vec::new();
        for (gpus, engines) in [(1, "offload"), (8, "awake")] {
            let engines = format!("sampling.engines_while_training={engines}");
            let endpoints = "generation.endpoints=[\"http://127.0.0.1:8000\"]";
            let recipe = recipe(&[&on_gpu[..], &[engines.as_str(), endpoints]].concat());
            // The dry run has read no prompt, and half a token makes no sequence longer.
            let plan = of_h100(&recipe, gpus, 0.5);
            let dry_run = of_run(&recipe, &recipe.fresh_model().config(), &DataFacts::default());
            assert_eq!(plan.learner_bytes, dry_run.needed_bytes, "{gpus}");
            needed.push(plan.learner_bytes);
        }
        assert_eq!(needed[0] - needed[1], 2 << 30, "an engine that sleeps");
    }

    const ADVICE: &str = "with pipeline.max_lag = 1 and sampling.engines_while_training = \"awake\" a step takes ";

    /// The number behind these words.
    fn number_after(text: &str, words: &str) -> f64 {
        let rest = &text[text.find(words).unwrap_or_else(|| panic!("no {words:?}: {text}")) + words.len()..];
        rest.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    fn engines_that_idle_most_of_a_step_are_advised_to_sample_meanwhile() {
        let text = plan(64, 0);
        let advised = number_after(&text, ADVICE);
        let [generation, step] = ["generation", "a step"].map(|line| number_after(&text, &format!("\n{line} ")));
        let idle = number_after(&text, "\nengines idle ");
        assert!(idle > 50.0 && (idle - 100.0 * (1.0 - generation / step)).abs() < 1.0, "{text}");
        // What is advised is what its own plan says.
        assert!(advised < step, "{text}");
        assert_eq!(number_after(&plan(64, 1), "\na step "), advised);
    }

    #[test]
    fn engines_that_are_busy_that_share_the_card_or_that_sample_meanwhile_get_no_advice() {
        for (gpus, max_lag) in [(8, 0), (1, 0), (64, 1)] {
            let text = plan(gpus, max_lag);
            assert!(!text.contains("engines idle") && !text.contains(ADVICE), "{gpus} {max_lag}: {text}");
        }
    }
}
