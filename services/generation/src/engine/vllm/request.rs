//! The body of a request for one sample. Every field that influences the sample is written, since engines take absent
//! ones from the model's generation_config.json.

use serde::Serialize;

use crate::engine::SampleRequest;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    prompt: &'a [u32],
    n: u32,
    max_tokens: u32,
    temperature: f32,
    top_p: f32,
    top_k: u32,
    min_p: f32,
    repetition_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    min_tokens: u32,
    ignore_eos: bool,
    stop: [&'a str; 0],
    stop_token_ids: &'a [u32],
    /// 0: of the sampled tokens alone.
    logprobs: u32,
    return_token_ids: bool,
    /// Affects only the text, which is not used; false spares the engine a check of each token.
    skip_special_tokens: bool,
    echo: bool,
    stream: bool,
    cache_salt: &'a str,
    request_id: &'a str,
}

/// The JSON body of a request to a model, or to an adapter by its name.
pub(super) fn body(model: &str, request: &SampleRequest<'_>) -> Vec<u8> {
    let sampling = request.sampling;
    let body = Body {
        model,
        prompt: request.token_ids,
        n: 1,
        max_tokens: sampling.max_tokens,
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        top_k: sampling.top_k,
        min_p: sampling.min_p,
        repetition_penalty: sampling.repetition_penalty,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
        seed: sampling.seeded.then_some(sampling.seed),
        min_tokens: sampling.min_tokens,
        ignore_eos: sampling.ignore_eos,
        stop: [],
        stop_token_ids: &sampling.stop_token_ids,
        logprobs: 0,
        return_token_ids: true,
        skip_special_tokens: false,
        echo: false,
        stream: request.stream,
        cache_salt: request.cache_salt,
        request_id: request.request_id,
    };
    // About six digits and a comma for each id.
    let mut bytes = Vec::with_capacity(512 + 7 * request.token_ids.len());
    serde_json::to_writer(&mut bytes, &body).expect("numbers and strings are JSON, and a vector takes all bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::SamplingSettings;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn no_field_is_left_to_the_engines_defaults() {
        let sampling = SamplingSettings { temperature: 0.7, stop_token_ids: vec![2], ..SamplingSettings::plain(16, 5) };
        let request = SampleRequest {
            request_id: "0123456789abcdef",
            token_ids: &[7, 8],
            sampling: &sampling,
            adapter: None,
            cache_salt: "3",
            traceparent: None,
            stream: false,
        };
        let sent: Value = serde_json::from_slice(&body("m", &request)).unwrap();
        let expected = json!({
            "model": "m", "prompt": [7, 8], "n": 1, "max_tokens": 16, "temperature": 0.7_f32, "top_p": 1.0, "top_k": 0,
            "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": 5,
            "min_tokens": 0, "ignore_eos": false, "stop": [], "stop_token_ids": [2], "logprobs": 0,
            "return_token_ids": true, "skip_special_tokens": false, "echo": false, "stream": false, "cache_salt": "3",
            "request_id": "0123456789abcdef",
        });
        for (field, value) in expected.as_object().unwrap() {
            if field != "temperature" {
                assert_eq!(&sent[field], value, "{field}");
            }
        }
        assert_eq!(sent.as_object().unwrap().len(), expected.as_object().unwrap().len());
        let unseeded = SamplingSettings { seeded: false, ..sampling.clone() };
        let without: Value =
            serde_json::from_slice(&body("m", &SampleRequest { sampling: &unseeded, ..request })).unwrap();
        assert_eq!(without.get("seed"), None);
        // The shortest decimal that is the same f32.
        assert!(String::from_utf8(body("m", &request)).unwrap().contains(r#""temperature":0.7,"#));
    }
}
