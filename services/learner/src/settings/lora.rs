//! LoRA: adapters of low rank are trained beside frozen weights.

use std::path::PathBuf;

use evenkeel_model::folder::AdapterBase;
use evenkeel_model::{LinearModule, LoraShape};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// LoRA: the model stays as it is, and what is trained is (alpha / rank) B A beside each linear layer. Absent: all
/// weights are trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoraSettings {
    /// Rows of A and columns of B, at most the smaller side of every target.
    pub rank: usize,
    /// The scale of B A times the rank. A scale that is a power of two is exact wherever it is multiplied in.
    pub alpha: f64,
    /// The linear layers that have an adapter: of every decoder layer, and `lm_head` where the model's head is not its
    /// embedding and the engines are embedded ones.
    pub targets: Vec<LinearModule>,
    /// Seed of the first values of A; B begins at zero.
    pub seed: u64,
    /// The folder of a PEFT adapter of this rank, alpha and targets to begin with.
    pub start: Option<PathBuf>,
    /// How the frozen matrices are held: `bf16` takes half the memory of `f32`, computes to the same bits, and needs
    /// files that store them so.
    pub base_type: BaseType,
}

/// The type in which frozen matrices are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BaseType {
    /// fp32.
    #[default]
    F32,
    /// bfloat16: products in bf16 read them as they are, those in fp32 widen them.
    Bf16,
}

impl Default for LoraSettings {
    fn default() -> Self {
        let targets = LinearModule::OF_LAYERS.to_vec();
        Self { rank: 16, alpha: 32.0, targets, seed: 0, start: None, base_type: BaseType::F32 }
    }
}

impl LoraSettings {
    /// Rank, scale and targets, in the order of a layer's parameters.
    pub fn shape(&self) -> LoraShape {
        let mut targets = self.targets.clone();
        targets.sort_unstable();
        LoraShape { rank: self.rank, alpha: self.alpha, targets }
    }

    pub(super) fn validate(&self) -> Result<(), FieldError> {
        self.shape().validate_alone()
    }

    /// What a reader of these settings should know, one sentence each.
    pub(super) fn notes(&self, learning_rate: f64) -> Vec<String> {
        let mut notes = vec![format!(
            "lora trains adapters, whose learning rate is about ten times that of all weights: optimizer.learning_rate \
            is {learning_rate:e}"
        )];
        // A folder that cannot be read is refused when the run starts.
        let start = self.start.as_ref().and_then(|start| AdapterBase::of_adapter(start).ok());
        if let Some(note) = start.and_then(|base| base.note()) {
            notes.push(format!("lora.start: {note}"));
        }
        let scale = self.shape().scale();
        // A power of two has no bits after the first.
        if scale.to_bits().trailing_zeros() < f64::MANTISSA_DIGITS - 1 {
            notes.push(format!(
                "lora.alpha / lora.rank is {scale}, no power of two: B times it is rounded, here and in each engine in \
                its own way"
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TrainingSettings;

    #[test]
    fn a_shape_that_no_adapter_has_is_refused_by_its_field() {
        let refused = |change: fn(&mut LoraSettings)| {
            let mut settings = LoraSettings::default();
            change(&mut settings);
            settings.validate().unwrap_err().to_string()
        };
        assert!(LoraSettings::default().validate().is_ok());
        for (error, field) in [
            (refused(|lora| lora.rank = 0), "rank is 0"),
            (refused(|lora| lora.alpha = f64::NAN), "alpha is NaN"),
            (refused(|lora| lora.alpha = f64::INFINITY), "alpha is inf"),
            (refused(|lora| lora.alpha = 0.0), "alpha is 0"),
            (refused(|lora| lora.alpha = 1e300), "alpha is 1"),
            (refused(|lora| lora.targets.clear()), "targets is empty"),
            (refused(|lora| lora.targets.push(LinearModule::Up)), "targets is up_proj"),
        ] {
            assert!(error.starts_with(field), "{error}");
        }
    }

    #[test]
    fn a_run_may_go_on_with_its_base_in_another_type_which_has_the_same_bits() {
        let with = |lora| TrainingSettings { lora: Some(lora), ..TrainingSettings::default() };
        let wide = with(LoraSettings::default());
        let narrow = with(LoraSettings { base_type: BaseType::Bf16, ..LoraSettings::default() });
        assert_eq!((narrow.result_affecting(), narrow.hash()), (wide.result_affecting(), wide.hash()));
        assert_eq!(wide.result_affecting().lora, wide.lora);
        let other = with(LoraSettings { rank: 8, ..LoraSettings::default() });
        assert_ne!(other.hash(), wide.hash());
    }

    #[test]
    fn the_order_of_targets_means_nothing() {
        let mut settings = LoraSettings::default();
        settings.targets.reverse();
        assert!(settings.validate().is_ok());
        assert_eq!(settings.shape(), LoraSettings::default().shape());
    }

    #[test]
    fn a_scale_that_is_no_power_of_two_is_noted() {
        for (alpha, notes) in [(32.0, 1), (16.0, 1), (4.0, 1), (24.0, 2), (10.0, 2)] {
            assert_eq!(LoraSettings { alpha, ..LoraSettings::default() }.notes(1e-5).len(), notes, "{alpha}");
        }
    }
}
