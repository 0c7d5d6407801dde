//! Validation of responses: a sample counts only if it is consistent in itself and with its request.

use super::{EngineClientError, SampleFinish, SampleOutcome, SampleRequest, SampledTokens};

/// Engines write minus infinity as this; no sampled token has it.
const MINUS_INFINITY: f32 = -9999.0;

/// Validates tokens as they arrive, from index `from` on.
pub fn validate_tokens(
    tokens: &SampledTokens,
    from: usize,
    request: &SampleRequest<'_>,
) -> Result<(), EngineClientError> {
    let count = tokens.count();
    let max_tokens = request.sampling.max_tokens;
    if count > max_tokens as usize {
        let allowed = format!("at most max_tokens, {max_tokens}");
        return Err(EngineClientError::invalid("token_ids", format_args!("{count} ids"), allowed));
    }
    let is_valid = |value: &f32| value.is_finite() && *value <= 0.0 && *value > MINUS_INFINITY;
    match tokens.log_probabilities()[from..].iter().position(|value| !is_valid(value)) {
        None => Ok(()),
        Some(offset) => {
            let index = from + offset;
            let value = tokens.log_probabilities()[index];
            Err(EngineClientError::invalid(
                &format!("token_logprobs[{index}]"),
                value,
                "a finite number, at most 0, above -9999",
            ))
        }
    }
}

/// Validates a finished sample.
pub fn validate(
    tokens: &SampledTokens,
    outcome: SampleOutcome,
    request: &SampleRequest<'_>,
) -> Result<(), EngineClientError> {
    validate_tokens(tokens, 0, request)?;
    let count = tokens.count();
    let sampling = request.sampling;
    match outcome.finish {
        SampleFinish::Aborted => return Ok(()),
        SampleFinish::Length if count < sampling.max_tokens as usize => {
            // It cannot be the context: `max_tokens` fits it.
            let allowed = format!("max_tokens, {}, where finish_reason is length", sampling.max_tokens);
            return Err(EngineClientError::invalid("token_ids", format_args!("{count} ids"), allowed));
        }
        SampleFinish::Length | SampleFinish::Repetition => {}
        SampleFinish::Stop => {
            let Some(last) = tokens.ids().last() else {
                return Err(EngineClientError::invalid("token_ids", "empty", "at least the token that stopped it"));
            };
            if sampling.ignore_eos && !sampling.stop_token_ids.contains(last) {
                return Err(EngineClientError::invalid(
                    "token_ids",
                    format_args!("ends with {last}"),
                    "a stop token, as requested by ignore_eos",
                ));
            }
        }
    }
    if count < sampling.min_tokens as usize {
        let allowed = format!("at least min_tokens, {}", sampling.min_tokens);
        return Err(EngineClientError::invalid("token_ids", format_args!("{count} ids"), allowed));
    }
    let stops = &sampling.stop_token_ids;
    let inner = &tokens.ids()[..count.saturating_sub(1)];
    let after_min = inner.get(sampling.min_tokens as usize..).unwrap_or_default();
    if !stops.is_empty() && after_min.iter().any(|id| stops.contains(id)) {
        return Err(EngineClientError::invalid(
            "token_ids",
            "a stop token before the last",
            "none, as requested by stop_token_ids",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::SamplingSettings;

    use super::*;
    use crate::engine::EngineTimings;

    fn validated(ids: &[u32], values: &[f32], finish: SampleFinish, sampling: &SamplingSettings) -> Result<(), String> {
        let mut tokens = SampledTokens::default();
        ids.iter().zip(values).for_each(|(&id, &value)| tokens.push(id, value));
        let request = SampleRequest {
            request_id: "a",
            token_ids: &[1],
            sampling,
            adapter: None,
            cache_salt: "0",
            traceparent: None,
            stream: false,
        };
        let outcome = SampleOutcome { finish, timings: EngineTimings::default() };
        validate(&tokens, outcome, &request).map_err(|error| error.to_string())
    }

    #[test]
    fn a_complete_sample_is_valid() {
        let sampling = SamplingSettings { stop_token_ids: vec![9], ..SamplingSettings::plain(3, 1) };
        assert_eq!(validated(&[5, 6, 7], &[-0.5, 0.0, -3.0], SampleFinish::Length, &sampling), Ok(()));
        assert_eq!(validated(&[5, 9], &[-0.5, -0.1], SampleFinish::Stop, &sampling), Ok(()));
        assert_eq!(validated(&[], &[], SampleFinish::Aborted, &sampling), Ok(()));
    }

    #[test]
    fn an_inconsistent_sample_is_invalid() {
        let sampling = SamplingSettings { stop_token_ids: vec![9], ..SamplingSettings::plain(3, 1) };
        let refused = |ids: &[u32], values: &[f32], finish| validated(ids, values, finish, &sampling).unwrap_err();
        for (value, said) in [(f32::NAN, "NaN"), (0.1, "0.1"), (-9999.0, "-9999"), (f32::NEG_INFINITY, "-inf")] {
            let error = refused(&[5, 6, 7], &[-1.0, value, -1.0], SampleFinish::Length);
            assert!(error.contains(&format!("token_logprobs[1] is {said}, allowed: a finite number")), "{error}");
        }
        assert!(
            refused(&[5, 6], &[-1.0, -1.0], SampleFinish::Length)
                .contains("max_tokens, 3, where finish_reason is length")
        );
        assert!(refused(&[5; 4], &[-1.0; 4], SampleFinish::Stop).contains("at most max_tokens, 3"));
        assert!(refused(&[], &[], SampleFinish::Stop).contains("at least the token that stopped it"));
        assert!(refused(&[9, 5, 6], &[-1.0; 3], SampleFinish::Length).contains("none, as requested by stop_token_ids"));
    }

    #[test]
    fn a_sample_that_ignores_its_settings_is_invalid() {
        let benchmark = SamplingSettings { ignore_eos: true, ..SamplingSettings::plain(3, 1) };
        assert!(
            validated(&[5], &[-1.0], SampleFinish::Stop, &benchmark)
                .unwrap_err()
                .contains("as requested by ignore_eos")
        );
        let long = SamplingSettings { min_tokens: 2, ..SamplingSettings::plain(3, 1) };
        assert!(validated(&[5], &[-1.0], SampleFinish::Stop, &long).unwrap_err().contains("at least min_tokens, 2"));
    }
}
