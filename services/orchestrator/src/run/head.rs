//! In which form the head of the model is published, so that every engine takes it with each update.

use evenkeel_proto::v1::{GenerationGetStatusResponse, HeadForm, LearnerGetStatusResponse};

use crate::error::Incompatible;

/// Whether the head of a tied model has to be written out for these engines. `false` where learner or model are older
/// and do not say.
///
/// # Errors
/// Engines that would keep the head that they were started with, or whose model is another one; engines that take no
/// adapters, or none of the head, if those are trained.
pub(super) fn is_written_out(
    learner: &LearnerGetStatusResponse,
    generation: &GenerationGetStatusResponse,
) -> Result<bool, Incompatible> {
    if learner.trains_adapters() {
        // Only linear layers change.
        return match generation.takes_adapters {
            true if learner.trains_an_adapter_of_the_head() && generation.max_adapters > 0 => {
                Err(Incompatible::HeadAdapter)
            }
            true => Ok(false),
            false => Err(Incompatible::Adapters { missing: generation.adapters_missing.clone() }),
        };
    }
    let trained = learner.model.as_ref().map_or(HeadForm::Unspecified, |model| model.head());
    let served = generation.model.as_ref().map_or(HeadForm::Unspecified, |model| model.head());
    match (trained, served) {
        (HeadForm::Unspecified, _) => Ok(false),
        (HeadForm::Own, HeadForm::Tied) => Err(Incompatible::OwnHead),
        (HeadForm::Own, _) => Ok(false),
        _ if generation.takes_tied_head => Ok(false),
        (_, HeadForm::Own | HeadForm::WrittenOut) => Ok(true),
        (_, HeadForm::Tied) => Err(Incompatible::TiedHead { folder: "were started on such a folder" }),
        (_, HeadForm::Unspecified) => {
            let folder = "were started on a folder that the generation service cannot read";
            Err(Incompatible::TiedHead { folder })
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::ModelInfo;

    use super::*;

    fn asked(trained: HeadForm, served: HeadForm, takes_tied_head: bool) -> Result<bool, Incompatible> {
        let model = |head: HeadForm| Some(ModelInfo { head: head.into(), ..ModelInfo::default() });
        let learner = LearnerGetStatusResponse { model: model(trained), ..Default::default() };
        is_written_out(
            &learner,
            &GenerationGetStatusResponse { model: model(served), takes_tied_head, ..Default::default() },
        )
    }

    #[test]
    fn a_tied_head_is_written_out_for_engines_that_load_only_what_a_file_has() {
        for served in [HeadForm::Own, HeadForm::WrittenOut] {
            assert_eq!(asked(HeadForm::Tied, served, false), Ok(true));
        }
        for served in [HeadForm::Tied, HeadForm::WrittenOut, HeadForm::Unspecified] {
            assert_eq!(asked(HeadForm::Tied, served, true), Ok(false), "they take it as it is");
        }
        assert_eq!(asked(HeadForm::Own, HeadForm::Own, false), Ok(false));
    }

    #[test]
    fn engines_that_would_keep_their_first_head_are_refused_in_one_sentence() {
        let error = asked(HeadForm::Tied, HeadForm::Tied, false).unwrap_err().to_string();
        assert!(error.contains("started on such a folder: they would keep their first head"), "{error}");
        assert!(error.contains("`evenkeel model untie MODEL DIR`") && !error.contains(". "), "{error}");
        let error = asked(HeadForm::Tied, HeadForm::Unspecified, false).unwrap_err().to_string();
        assert!(error.contains("a folder that the generation service cannot read"), "{error}");
        assert_eq!(asked(HeadForm::Own, HeadForm::Tied, true), Err(Incompatible::OwnHead));
    }

    #[test]
    fn engines_that_take_no_adapters_are_refused_for_a_learner_that_trains_them() {
        let learner =
            LearnerGetStatusResponse { tensor_groups: vec!["mlp".into(), "base".into()], ..Default::default() };
        let asked = |takes_adapters| {
            let adapters_missing = "LoRA (--enable-lora)".to_owned();
            let generation = GenerationGetStatusResponse { takes_adapters, adapters_missing, ..Default::default() };
            is_written_out(&learner, &generation)
        };
        assert_eq!(asked(true), Ok(false));
        let error = asked(false).unwrap_err().to_string();
        assert!(error.contains("a LoRA adapter") && error.contains("--enable-lora"), "{error}");
    }

    #[test]
    fn engines_with_adapters_by_name_are_refused_for_a_learner_that_trains_one_of_the_head() {
        let asked = |groups: &[&str], max_adapters| {
            let tensor_groups = groups.iter().map(|&name| name.to_owned()).collect();
            let learner = LearnerGetStatusResponse { tensor_groups, ..Default::default() };
            let generation = GenerationGetStatusResponse { takes_adapters: true, max_adapters, ..Default::default() };
            is_written_out(&learner, &generation)
        };
        assert_eq!(asked(&["head", "mlp", "base"], 2), Err(Incompatible::HeadAdapter));
        assert_eq!(asked(&["head", "mlp", "base"], 0), Ok(false), "an embedded engine computes it");
        assert_eq!(asked(&["mlp", "base"], 2), Ok(false));
    }

    #[test]
    fn a_learner_that_does_not_say_is_left_alone() {
        assert_eq!(asked(HeadForm::Unspecified, HeadForm::Tied, false), Ok(false));
    }
}
