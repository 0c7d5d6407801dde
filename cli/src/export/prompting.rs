//! How the exported model is prompted: one real prompt, with transformers and with vLLM.

use std::fmt::Write;

use anyhow::Result;
use evenkeel_recipe::Recipe;
use evenkeel_run::{AnswerReader, RunRecord, list_answers};

/// Longest prompt that is shown, in characters.
const MAX_PROMPT: usize = 2000;

/// A section of the model card. Without an evaluation there is no real prompt to show.
pub(super) fn how_to_prompt(text: &mut String, run: &RunRecord, recipe: &Recipe) -> Result<()> {
    let Some(prompt) = last_prompt(run) else { return Ok(()) };
    // A text in JSON is one in Python.
    let prompt = serde_json::to_string(&prompt)?;
    let tokens = recipe.sampling.max_tokens;
    let temperature = recipe.sampling.temperature;
    write!(
        text,
        "\n## How to prompt\n\nA prompt that it was evaluated on, to the last character (`\\n` is a line break). With \
         another form, even with another end, its answers are worse. `MODEL` is this folder.\n\n\
         ```python\n\
         from transformers import AutoModelForCausalLM, AutoTokenizer\n\
         tokenizer, model = AutoTokenizer.from_pretrained(\"MODEL\"), AutoModelForCausalLM.from_pretrained(\"MODEL\")\n\
         prompt = {prompt}\n\
         ids = tokenizer(prompt, add_special_tokens=False, return_tensors=\"pt\").input_ids\n\
         out = model.generate(ids, max_new_tokens={tokens}, do_sample=True, temperature={temperature}, top_k=0)\n\
         print(tokenizer.decode(out[0, ids.shape[1]:], skip_special_tokens=True))\n\
         ```\n\n\
         With vLLM, `vllm serve MODEL`, and the same prompt to `/v1/completions` with `\"add_special_tokens\": false`. \
         With Evenkeel, `evenkeel generate MODEL PROMPT`.\n"
    )?;
    Ok(())
}

/// The first prompt of the last evaluation that has one which is short enough.
fn last_prompt(run: &RunRecord) -> Option<String> {
    let evaluations = run.path.join("evaluation");
    let step = |name: &std::ffi::OsStr| name.to_str()?.strip_prefix("step-")?.parse::<u64>().ok();
    let entries = std::fs::read_dir(&evaluations).ok()?.flatten();
    let mut folders: Vec<_> = entries.filter_map(|entry| Some((step(&entry.file_name())?, entry.path()))).collect();
    folders.sort();
    folders.into_iter().rev().find_map(|(_, folder)| {
        let (_, file) = list_answers(&folder).ok()?.into_iter().next()?;
        let mut answers = AnswerReader::open(&file).ok()?.flatten();
        answers.find(|answer| answer.prompt.chars().count() <= MAX_PROMPT).map(|answer| answer.prompt)
    })
}
