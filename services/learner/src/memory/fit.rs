//! The first changes of settings by which training fits.

use std::fmt;

use evenkeel_model::{Config, ModelError, Recompute};

use super::{MemoryPlan, PassBytes};
use crate::settings::{BaseType, MomentsLocation, TrainingSettings};

/// A setting that changes how much memory training takes, and no more of what it computes than the order of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `compute.micro_batch_tokens`.
    MicroBatchTokens(usize),
    /// `compute.recompute`.
    Recompute(Recompute),
    /// `compute.gradient_blocks = 1`: other last bits.
    OneBlock,
    /// `optimizer.moments = host`.
    MomentsOnHost,
    /// `lora.base_type = bf16`: for files that store their matrices so.
    BaseInBf16,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MicroBatchTokens(tokens) => write!(f, "compute.micro_batch_tokens = {tokens}"),
            Self::Recompute(recompute) => write!(f, "compute.recompute = {}", recompute.name()),
            Self::OneBlock => f.write_str("compute.gradient_blocks = 1"),
            Self::MomentsOnHost => f.write_str("optimizer.moments = host"),
            Self::BaseInBf16 => f.write_str("lora.base_type = bf16 (for files that store their matrices so)"),
        }
    }
}

impl Change {
    fn apply(self, settings: &mut TrainingSettings) {
        match self {
            Self::MicroBatchTokens(tokens) => settings.compute.micro_batch_tokens = tokens,
            Self::Recompute(recompute) => settings.compute.recompute = recompute,
            Self::OneBlock => settings.compute.gradient_blocks = 1,
            Self::MomentsOnHost => settings.optimizer.moments = MomentsLocation::Host,
            Self::BaseInBf16 => {
                if let Some(lora) = &mut settings.lora {
                    lora.base_type = BaseType::Bf16;
                }
            }
        }
    }
}

/// A way to train that fits.
#[derive(Clone, Debug)]
pub struct FirstFit {
    /// What is changed, the first thing first; nothing if the settings fit as they are.
    pub changes: Vec<Change>,
    /// The settings with those changes.
    pub settings: TrainingSettings,
    /// Plan with these changes.
    pub plan: MemoryPlan,
}

impl FirstFit {
    /// Looks for it by what changes cost in speed: a base in bf16, which costs nothing; what is cheap to compute again;
    /// micro-batches of a half and a quarter; everything computed again; smaller micro-batches, down to one sequence.
    /// Then all of that with one block of gradients, and then both with moments in the host's memory. `None` if
    /// nothing fits this many free bytes of the device and, if they are known, of the host. `may_narrow_base`: whether
    /// the model's files may store their matrices in bf16, without which a base in it is refused.
    ///
    /// # Errors
    /// As [`MemoryPlan::of`].
    pub fn of(
        config: &Config,
        settings: &TrainingSettings,
        longest: usize,
        device: u64,
        host: Option<u64>,
        may_narrow_base: bool,
    ) -> Result<Option<Self>, ModelError> {
        // Counting a pass takes a while, and several ways have the same.
        let mut passes: Vec<((Recompute, usize, bool), PassBytes)> = Vec::new();
        for changes in ways(settings, longest, may_narrow_base) {
            let mut changed = settings.clone();
            changes.iter().for_each(|change| change.apply(&mut changed));
            let key = (changed.compute.recompute, changed.compute.micro_batch_tokens, changed.has_wide_base());
            let known = passes.iter().find(|(of, _)| *of == key).map(|(_, pass)| *pass);
            let pass = match known {
                Some(pass) => pass,
                None => {
                    let pass = PassBytes::of(config, &changed, longest)?;
                    passes.push((key, pass));
                    pass
                }
            };
            let plan = MemoryPlan::around(pass, config, &changed)?;
            if plan.validate(device, host, &changed).is_ok() {
                return Ok(Some(Self { changes, settings: changed, plan }));
            }
        }
        Ok(None)
    }
}

/// Everything that can be tried, in order: the settings as they are, too.
fn ways(settings: &TrainingSettings, longest: usize, may_narrow_base: bool) -> Vec<Vec<Change>> {
    let now = settings.compute.resolved_micro_batch_tokens();
    // Halved down to one sequence.
    let halved = std::iter::successors(Some(now / 2), |tokens| Some(tokens / 2)).take_while(|&tokens| tokens > longest);
    let smaller: Vec<usize> = halved.chain((now > longest).then_some(longest)).collect();
    let more = Recompute::ALL.into_iter().skip_while(|&each| each != settings.compute.recompute).skip(1);
    let recompute: Vec<Option<Recompute>> = std::iter::once(None).chain(more.map(Some)).collect();
    let moments: &[Option<Change>] = match settings.optimizer.moments {
        MomentsLocation::Device => &[None, Some(Change::MomentsOnHost)],
        MomentsLocation::Host => &[None],
    };
    let blocks: &[Option<Change>] = match settings.compute.gradient_blocks {
        1 => &[None],
        _ => &[None, Some(Change::OneBlock)],
    };
    // What costs no speed comes before everything else, and stays.
    let base = (may_narrow_base && settings.has_wide_base()).then_some(Change::BaseInBf16);
    let mut ways: Vec<Vec<Change>> = base.map(|_| Vec::new()).into_iter().collect();
    for (moments, block) in moments.iter().flat_map(|moments| blocks.iter().map(move |block| (moments, block))) {
        let changes_of = |recompute: &Option<Recompute>, tokens: Option<usize>| -> Vec<Change> {
            let tokens = tokens.map(Change::MicroBatchTokens);
            let first = base.iter().chain(moments).chain(block).copied();
            first.chain(recompute.map(Change::Recompute)).chain(tokens).collect()
        };
        // Smaller micro-batches cost less than everything computed again, as long as they are not very small.
        let (cheap, full): (Vec<_>, Vec<_>) = recompute.iter().partition(|each| **each != Some(Recompute::Full));
        ways.extend(cheap.iter().map(|each| changes_of(each, None)));
        ways.extend(
            smaller
                .iter()
                .take(2)
                .flat_map(|&tokens| cheap.iter().map(move |each| (each, tokens)))
                .map(|(each, tokens)| changes_of(each, Some(tokens))),
        );
        ways.extend(full.iter().map(|each| changes_of(each, None)));
        ways.extend(
            smaller
                .iter()
                .flat_map(|&tokens| recompute.iter().map(move |each| (each, tokens)))
                .map(|(each, tokens)| changes_of(each, Some(tokens))),
        );
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::super::recorded_tests::models;
    use super::*;
    use crate::settings::{Compute, ComputeType, LoraSettings};

    /// Qwen3-1.7B with its whole context.
    fn config() -> Config {
        let [_, (_, qwen3), ..] = models();
        Config { max_position_embeddings: 40_960, ..qwen3 }
    }

    fn settings(tokens: usize) -> TrainingSettings {
        let compute = Compute {
            device: "cuda".into(),
            dtype: ComputeType::Bf16,
            micro_batch_tokens: tokens,
            ..Compute::default()
        };
        TrainingSettings { compute, ..TrainingSettings::default() }
    }

    fn changes(gib: u64, host: Option<u64>) -> Option<Vec<String>> {
        let found =
            FirstFit::of(&config(), &settings(32_768), 4096, gib << 30, host.map(|gib| gib << 30), true).unwrap();
        found.map(|fit| fit.changes.iter().map(Change::to_string).collect())
    }

    #[test]
    fn a_card_that_has_room_needs_no_change_and_a_smaller_one_the_cheapest_that_suffice() {
        assert_eq!(changes(141, None).unwrap(), [""; 0]);
        assert_eq!(changes(94, None).unwrap(), ["compute.recompute = selective"]);
        assert_eq!(changes(75, None).unwrap(), ["compute.recompute = selective", "compute.micro_batch_tokens = 16384"]);
        assert_eq!(changes(24, None).unwrap()[0], "optimizer.moments = host");
        assert_eq!(changes(12, None), None, "weights and gradients alone take as much");
    }

    #[test]
    fn adapters_beside_a_base_that_is_too_wide_hold_it_in_bf16_before_anything_slower() {
        let config = Config { num_layers: 64, ..config() };
        let lora = Some(LoraSettings::default());
        let settings = TrainingSettings { lora, ..settings(8192) };
        let plan = |settings: &TrainingSettings| MemoryPlan::of(&config, settings, 4096).unwrap();
        let wide = plan(&settings);
        let fit = FirstFit::of(&config, &settings, 4096, wide.total() - 1, None, true).unwrap().unwrap();
        assert_eq!(fit.changes, [Change::BaseInBf16]);
        assert_eq!(fit.plan, plan(&fit.settings));
        let stored_wide = FirstFit::of(&config, &settings, 4096, wide.total() - 1, None, false).unwrap().unwrap();
        assert_eq!(stored_wide.changes, [Change::Recompute(Recompute::Selective)]);
        // Two bytes for each frozen value, and none for casts of them.
        let saved = wide.total() - fit.plan.total();
        assert!(saved > 5_000_000_000, "{saved}");
        assert!(FirstFit::of(&config, &settings, 4096, wide.total(), None, true).unwrap().unwrap().changes.is_empty());
        let error = wide.validate(1 << 30, None, &settings).unwrap_err().to_string();
        assert!(error.contains("set lora.base_type = bf16"), "{error}");
        let error = fit.plan.validate(1 << 30, None, &fit.settings).unwrap_err().to_string();
        assert!(!error.contains("lora.base_type"), "{error}");
    }

    #[test]
    fn what_is_found_fits_and_computes_the_same() {
        for gib in [20, 24, 32, 40, 48, 64, 80] {
            let before = settings(32_768);
            let config = config();
            let Some(fit) = FirstFit::of(&config, &before, 4096, gib << 30, None, true).unwrap() else { continue };
            assert!(fit.plan.total() <= gib << 30, "{gib} GiB: {}", fit.plan);
            assert_eq!(
                (fit.settings.epochs, fit.settings.mini_batch_groups),
                (before.epochs, before.mini_batch_groups)
            );
            assert!(fit.settings.compute.micro_batch_tokens >= 4096);
        }
    }

    #[test]
    fn a_host_without_room_for_the_moments_is_not_told_to_take_them() {
        assert!(changes(24, Some(64)).is_some());
        assert_eq!(changes(24, Some(4)), None);
    }
}
