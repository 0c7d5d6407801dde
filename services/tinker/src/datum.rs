//! Datums of `forward_backward` as sequences with targets.

use std::collections::HashMap;

use evenkeel_objective::SummedLoss;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{AccumulateOperation, TargetSequence};

use crate::wire::{Datum, FLOAT32, ForwardBackwardRequest, INT32, INT64, LossConfigKind, Tensor, elements};

/// The operation that a request asks for.
///
/// # Errors
/// What of it is not served, by its field.
pub(crate) fn accumulation(request: ForwardBackwardRequest) -> Result<AccumulateOperation, FieldError> {
    let loss: SummedLoss = request.loss_fn.parse().map_err(|error| FieldError { field: "loss_fn".into(), ..error })?;
    let mut config: HashMap<String, f64> = request.loss_fn_config;
    for (name, value) in request.loss_fn_config_v2 {
        match value.kind {
            Some(LossConfigKind::Number(number)) => _ = config.insert(name, number),
            Some(LossConfigKind::Text(text)) => {
                return Err(FieldError::quoted(format!("loss_fn_config.{name}"), text, "a number"));
            }
            None => {}
        }
    }
    let clip_low = config.remove("clip_low_threshold");
    let clip_high = config.remove("clip_high_threshold");
    if let Some((name, value)) = config.into_iter().next() {
        let allowed = "absent (clip_low_threshold and clip_high_threshold are served)";
        return Err(FieldError::new(format!("loss_fn_config.{name}"), value, allowed));
    }
    let data = request.data.into_iter().enumerate();
    let data = data.map(|(number, datum)| sequence(datum, loss).map_err(|e| e.within(format!("data[{number}]"))));
    Ok(AccumulateOperation {
        data: data.collect::<Result<_, _>>()?,
        loss: loss.name().to_owned(),
        clip_low,
        clip_high,
        forward_only: request.forward_only,
    })
}

fn sequence(datum: Datum, loss: SummedLoss) -> Result<TargetSequence, FieldError> {
    let mut tokens = Vec::new();
    for (number, chunk) in datum.model_input.into_iter().enumerate() {
        let field = format!("model_input.chunks[{number}]");
        let text = chunk.encoded_text.ok_or_else(|| FieldError::new(field.as_str(), "an image or sound", "text"))?;
        let ids = elements(&text.tokens, i32::from_le_bytes)
            .ok_or_else(|| FieldError::new(field.as_str(), format_args!("{} bytes", text.tokens.len()), "int32"))?;
        for id in ids {
            let id = u32::try_from(id).map_err(|_| FieldError::new(field.as_str(), id, "token ids, 0 or above"))?;
            tokens.push(id);
        }
    }
    let mut inputs = datum.loss_fn_inputs;
    let mut take = |name: &str| inputs.remove(name).ok_or_else(|| FieldError::missing(name, format!("with {loss}")));
    let target_ids = whole("target_tokens", take("target_tokens")?)?
        .into_iter()
        .map(|id| u32::try_from(id).map_err(|_| FieldError::new("target_tokens", id, "token ids, 0 or above")))
        .collect::<Result<_, _>>()?;
    let mut sequence = TargetSequence { token_ids: tokens, target_ids, ..TargetSequence::default() };
    if loss.has_ratio() {
        sequence.factors = numbers("advantages", take("advantages")?)?;
        sequence.sampler_log_probabilities = numbers("logprobs", take("logprobs")?)?;
    } else {
        sequence.factors = numbers("weights", take("weights")?)?;
    }
    if loss == SummedLoss::Balanced {
        let group = whole("group", take("group")?)?;
        let first = group.first().copied().ok_or_else(|| FieldError::new("group", "empty", "one number"))?;
        if let Some(other) = group.iter().find(|&&other| other != first) {
            return Err(FieldError::new("group", other, format!("{first}, as for the other tokens of the response")));
        }
        sequence.group = Some(first);
    }
    validate(&sequence, loss)?;
    // Masks and the like that recipes leave in a datum say nothing that the factors do not.
    Ok(sequence)
}

/// Log-probabilities are 0 at most, but for rounding.
const MAX_LOGP: f32 = 1e-3;

/// Largest factor of a token: far above what a loss needs, and far below what destroys weights.
const MAX_FACTOR: f32 = 1e6;

/// Refuses factors that no loss means, and log-probabilities that are none.
fn validate(sequence: &TargetSequence, loss: SummedLoss) -> Result<(), FieldError> {
    let name = if loss.has_ratio() { "advantages" } else { "weights" };
    let is_large = |factor: &&f32| !(-MAX_FACTOR..=MAX_FACTOR).contains(*factor);
    if let Some(factor) = sequence.factors.iter().find(is_large) {
        return Err(FieldError::new(name, factor, format!("-{MAX_FACTOR:e} to {MAX_FACTOR:e}")));
    }
    let trained = sequence.sampler_log_probabilities.iter().zip(&sequence.factors);
    let is_none = |(logp, factor): &(&f32, &f32)| **factor != 0.0 && !(f32::NEG_INFINITY..=MAX_LOGP).contains(*logp);
    match trained.into_iter().find(is_none) {
        Some((logp, _)) => Err(FieldError::new("logprobs", logp, "log-probabilities, which are 0 or below")),
        None => Ok(()),
    }
}

/// The bytes of a list.
fn list(name: &str, tensor: Tensor) -> Result<(i32, Vec<u8>), FieldError> {
    let bytes = tensor.dense.ok_or_else(|| FieldError::new(name, "sparse", "a dense list"))?;
    if tensor.shape.len() > 1 {
        return Err(FieldError::new(name, format_args!("of shape {:?}", tensor.shape), "one number for each token"));
    }
    Ok((tensor.dtype, bytes))
}

fn numbers(name: &str, tensor: Tensor) -> Result<Vec<f32>, FieldError> {
    let (dtype, bytes) = list(name, tensor)?;
    let found = match dtype {
        FLOAT32 => elements(&bytes, f32::from_le_bytes),
        INT64 => elements(&bytes, i64::from_le_bytes).map(|all| all.into_iter().map(|x| x as f32).collect()),
        INT32 => elements(&bytes, i32::from_le_bytes).map(|all| all.into_iter().map(|x| x as f32).collect()),
        _ => None,
    };
    found.ok_or_else(|| FieldError::new(name, format_args!("of type {dtype}"), "a list of float32"))
}

fn whole(name: &str, tensor: Tensor) -> Result<Vec<i64>, FieldError> {
    let (dtype, bytes) = list(name, tensor)?;
    let found = match dtype {
        INT64 => elements(&bytes, i64::from_le_bytes),
        INT32 => elements(&bytes, i32::from_le_bytes).map(|all| all.into_iter().map(i64::from).collect()),
        _ => None,
    };
    found.ok_or_else(|| FieldError::new(name, format_args!("of type {dtype}"), "a list of int64"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Chunk, EncodedText, LossConfigValue, floats};

    fn ints(values: &[i64]) -> Tensor {
        let dense = Some(values.iter().flat_map(|x| x.to_le_bytes()).collect());
        Tensor { dense, dtype: INT64, shape: vec![values.len() as i64] }
    }

    fn request(loss: &str) -> ForwardBackwardRequest {
        let chunk = |ids: &[i32]| Chunk {
            encoded_text: Some(EncodedText { tokens: ids.iter().flat_map(|x| x.to_le_bytes()).collect() }),
        };
        let list = |values: &[f32]| Tensor { dense: Some(floats(values)), dtype: FLOAT32, shape: vec![3] };
        let inputs = [
            ("target_tokens", ints(&[2, 3, 4])),
            ("weights", list(&[0.0, 1.0, -1.0])),
            ("advantages", list(&[0.0, 1.0, 1.0])),
            ("logprobs", list(&[0.0, -1.0, -2.0])),
            ("group", ints(&[5])),
        ];
        let datum = Datum {
            model_input: vec![chunk(&[1, 2]), chunk(&[3])],
            loss_fn_inputs: inputs.map(|(name, tensor)| (name.to_owned(), tensor)).into(),
        };
        ForwardBackwardRequest { data: vec![datum], loss_fn: loss.into(), ..ForwardBackwardRequest::default() }
    }

    #[test]
    fn chunks_of_text_are_one_sequence_with_what_its_loss_takes() {
        let operation = accumulation(request("cross_entropy")).unwrap();
        assert_eq!(
            (operation.data[0].token_ids.as_slice(), operation.data[0].target_ids.as_slice()),
            (&[1, 2, 3][..], &[2, 3, 4][..])
        );
        assert_eq!(operation.data[0].factors, [0.0, 1.0, -1.0]);
        assert!(operation.data[0].sampler_log_probabilities.is_empty() && operation.data[0].group.is_none());
        let operation = accumulation(request("balanced")).unwrap();
        assert_eq!((operation.data[0].sampler_log_probabilities.len(), operation.data[0].group), (3, Some(5)));
    }

    #[test]
    fn what_is_not_served_is_named() {
        let refused = |change: &dyn Fn(&mut ForwardBackwardRequest)| {
            let mut request = request("ppo");
            change(&mut request);
            accumulation(request).unwrap_err().to_string()
        };
        assert!(refused(&|r| r.loss_fn = "stable_reinforce".into()).starts_with("loss_fn is \"stable_reinforce\""));
        let number = LossConfigValue { kind: Some(LossConfigKind::Number(0.05)) };
        let beta = refused(&|r| drop(r.loss_fn_config_v2.insert("beta".into(), number.clone())));
        assert!(beta.starts_with("loss_fn_config.beta is 0.05"), "{beta}");
        assert!(refused(&|r| r.data[0].model_input[1].encoded_text = None).contains("chunks[1] is an image"));
        let missing = refused(&|r| drop(r.data[0].loss_fn_inputs.remove("logprobs")));
        assert!(missing.starts_with("data[0].logprobs is absent"), "{missing}");
        let shape = refused(&|r| r.data[0].loss_fn_inputs.get_mut("target_tokens").unwrap().shape = vec![3, 2]);
        assert!(shape.contains("of shape [3, 2]"), "{shape}");
        let list = |values: &[f32]| Tensor { dense: Some(floats(values)), dtype: FLOAT32, shape: vec![3] };
        let put = |name: &'static str, values: &'static [f32]| {
            refused(&move |r| drop(r.data[0].loss_fn_inputs.insert(name.to_owned(), list(values))))
        };
        assert!(
            put("advantages", &[0.0, 1e30, 1.0]).contains("advantages is 1000000000000000000000000000000, allowed")
        );
        assert!(put("logprobs", &[5.0, -1.0, 5.0]).contains("logprobs is 5, allowed: log-probabilities"));
        let sparse = refused(&|r| r.data[0].loss_fn_inputs.get_mut("advantages").unwrap().dense = None);
        assert!(sparse.contains("advantages is sparse"), "{sparse}");
    }
}
