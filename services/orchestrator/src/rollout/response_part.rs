//! A part of a response: what one version of the weights samples of it.

use std::sync::Arc;

use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::{FinishReason, Segment, WeightsRef};

use super::group_request::GroupRequest;

/// A part that is to be sampled.
#[derive(Debug, Clone)]
pub(super) struct ResponsePart {
    /// The weights that are to sample it. `None`: those that the engines have.
    pub(super) weights: Option<WeightsRef>,
    /// Prompt of this part, if that is not the prompt of its group.
    pub(super) prompt: Option<Arc<[u32]>>,
    /// The response before it, from that prompt on; empty for the first part.
    pub(super) before: Vec<Segment>,
    /// The engine that sampled what is before it; empty where any engine will do.
    pub(super) engine: String,
    /// Sampling settings of this part.
    pub(super) sampling: SamplingSettings,
    /// Whether the response ends with it.
    pub(super) is_last: bool,
}

impl ResponsePart {
    /// Prompt of this part in that group, before the response.
    pub(super) fn prompt_in<'a>(&'a self, group: &'a GroupRequest) -> &'a [u32] {
        self.prompt.as_deref().unwrap_or(&group.prompt_token_ids)
    }

    /// The version that is to sample it. `None`: any.
    pub(super) fn version(&self) -> Option<u64> {
        self.weights.as_ref().map(|weights| weights.version)
    }

    /// Whether the response ends here, where `tokens` more were sampled and ended for that reason.
    pub(super) fn ends(&self, tokens: u32, reason: FinishReason) -> bool {
        // Fewer than were requested: the context ended it.
        self.is_last || reason != FinishReason::Length || tokens < self.sampling.max_tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_goes_on_where_its_part_is_full_and_not_the_last() {
        let part = |is_last| ResponsePart {
            weights: None,
            prompt: None,
            before: Vec::new(),
            engine: String::new(),
            sampling: SamplingSettings::plain(4, 0),
            is_last,
        };
        let ends = [
            part(false).ends(4, FinishReason::Length),
            part(false).ends(4, FinishReason::Stop),
            part(false).ends(3, FinishReason::Length),
            part(false).ends(4, FinishReason::Repetition),
            part(true).ends(4, FinishReason::Length),
        ];
        assert_eq!(ends, [false, true, true, true, true]);
    }
}
