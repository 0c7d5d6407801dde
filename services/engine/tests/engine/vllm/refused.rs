//! Requests that both engines refuse.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Requests that both servers refuse with equal status and code. Each server names the field in its own way.
pub(super) fn refused() -> Vec<Value> {
    let mut all = vec![
        json!({"prompt": [1, "a"]}),
        json!({"prompt": 5}),
        json!({"prompt": null}),
        json!({"prompt": ""}),
        json!({"prompt": []}),
        json!({"prompt": [[]]}),
        json!({"prompt": [[1], []]}),
        json!({"prompt": [-1]}),
        json!({"prompt": [128]}),
        json!({"prompt": [500000]}),
        json!({"prompt": [1.5]}),
        json!({"prompt": vec![5; 513]}),
        json!({"prompt": vec![5; 512]}),
        json!({"model": "zzz"}),
        json!({"model": 5}),
        json!({"n": 2}),
        json!({"n": 17000, "temperature": 1}),
        json!({"temperature": "x", "n": "y"}),
        json!({"stream_options": {"include_usage": true}}),
        json!({"stream": true, "temperature": 9}),
        json!({"stream": true, "prompt": vec![5; 512]}),
        json!({"stop": [""]}),
        json!({"cache_salt": ""}),
        json!({"suffix": "a"}),
        json!({"prompt_embeds": "x"}),
        json!({"allowed_token_ids": []}),
    ];
    let table = json!({
        "max_tokens": [0, -1, "x", 1.5, 1000, 513], "temperature": [-0.1, 2.1, "x"], "top_p": [0, 1.1, -1, "x"],
        "top_k": [-2, 1.5, "x"], "min_p": [-0.1, 1.1], "n": [0, -1, "x"], "seed": ["x", 1.5],
        "logprobs": [-2, -1, 21, "x", 1.5], "stop": ["", 5], "stop_token_ids": [["x"], [200], [-1], 5],
        "min_tokens": [-1, 7], "ignore_eos": ["x"], "return_token_ids": ["x"], "stream": ["x"],
    });
    // In the order of the recording, which is that of the names.
    for (field, values) in table.as_object().unwrap().iter().collect::<BTreeMap<_, _>>() {
        all.extend(values.as_array().unwrap().iter().map(|value| json!({field.clone(): value})));
    }
    all
}
