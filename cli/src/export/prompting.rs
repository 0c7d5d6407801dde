//! How the exported model is prompted: one real prompt, with transformers and with vLLM.

use std::fmt::Write;

use anyhow::Result;
use evenkeel_learner::LoraSettings;
use evenkeel_recipe::Recipe;
use evenkeel_run::{AnswerReader, RunRecord, list_answers};

use super::base::Base;

/// Longest prompt that is shown, in characters.
const MAX_PROMPT: usize = 2000;

/// Ranks that vLLM's `--max-lora-rank` takes.
const VLLM_RANKS: [usize; 9] = [1, 8, 16, 32, 64, 128, 256, 320, 512];

/// A section of the model card. Without an evaluation there is no real prompt to show.
pub(super) fn how_to_prompt(
    text: &mut String,
    run: &RunRecord,
    recipe: &Recipe,
    base: &Base,
    lora: Option<&LoraSettings>,
) -> Result<()> {
    let Some(prompt) = last_prompt(run) else { return Ok(()) };
    // A text in JSON is one in Python.
    let prompt = serde_json::to_string(&prompt)?;
    let tokens = recipe.sampling.max_tokens;
    let temperature = recipe.sampling.temperature;
    let Commands { placeholders, imports, model, engines } = commands(base, lora);
    write!(
        text,
        "\n## How to prompt\n\nA prompt that it was evaluated on, to the last character (`\\n` is a line break). With \
         another form, even with another end, its answers are worse. {placeholders}\n\n\
         ```python\n\
         {imports}\n\
         {model}\n\
         prompt = {prompt}\n\
         ids = tokenizer(prompt, add_special_tokens=False, return_tensors=\"pt\").input_ids\n\
         out = model.generate(input_ids=ids, max_new_tokens={tokens}, do_sample=True, temperature={temperature}, \
         top_k=0)\n\
         print(tokenizer.decode(out[0, ids.shape[1]:], skip_special_tokens=True))\n\
         ```\n\n\
         {engines}\n"
    )?;
    Ok(())
}

/// What a reader types, which an adapter has in another form than a model.
struct Commands {
    placeholders: String,
    imports: &'static str,
    model: String,
    engines: String,
}

fn commands(base: &Base, lora: Option<&LoraSettings>) -> Commands {
    let with_vllm = "and the same prompt to `/v1/completions` with `\"add_special_tokens\": false`";
    let Some(lora) = lora else {
        return Commands {
            placeholders: "`MODEL` is this folder.".to_owned(),
            imports: "from transformers import AutoModelForCausalLM, AutoTokenizer",
            model: "tokenizer = AutoTokenizer.from_pretrained(\"MODEL\")\n\
                    model = AutoModelForCausalLM.from_pretrained(\"MODEL\")"
                .to_owned(),
            engines: format!(
                "With vLLM, `vllm serve MODEL`, {with_vllm}. With Evenkeel, `evenkeel generate MODEL PROMPT`."
            ),
        };
    };
    let (placeholders, name, in_python, revision) = match base {
        Base::Hub { repository, revision } => (
            "`ADAPTER` is this folder.".to_owned(),
            repository.as_str(),
            format!("\"{repository}\", revision=\"{revision}\""),
            format!(" --revision {revision}"),
        ),
        other => (
            format!("`ADAPTER` is this folder, `BASE` the model that it belongs to, {}.", other.shown()),
            "BASE",
            "\"BASE\"".to_owned(),
            String::new(),
        ),
    };
    let rank = VLLM_RANKS.into_iter().find(|&rank| rank >= lora.rank).unwrap_or(lora.rank);
    let on_hub = if revision.is_empty() { name.to_owned() } else { format!("hf:{name}@{}", base.on_hub().1) };
    Commands {
        placeholders,
        imports: "from peft import PeftModel\nfrom transformers import AutoModelForCausalLM, AutoTokenizer",
        model: format!(
            "tokenizer, base = AutoTokenizer.from_pretrained(\"ADAPTER\"), \
             AutoModelForCausalLM.from_pretrained({in_python})\n\
             model = PeftModel.from_pretrained(base, \"ADAPTER\")"
        ),
        engines: format!(
            "With vLLM, `vllm serve {name}{revision} --enable-lora --max-lora-rank {rank} \
             --lora-modules trained=ADAPTER`, {with_vllm} and `\"model\": \"trained\"`. With Evenkeel, \
             `evenkeel eval --model ADAPTER --base {on_hub} --benchmark ROWS`; `evenkeel export RUN --merged --to MODEL` \
             writes a model, for `evenkeel generate`."
        ),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_is_loaded_beside_its_base() {
        let lora = LoraSettings { rank: 9, ..LoraSettings::default() };
        let base = Base::Hub { repository: "a/b".to_owned(), revision: "cc".to_owned() };
        let Commands { model, engines, .. } = commands(&base, Some(&lora));
        assert!(model.contains("from_pretrained(\"a/b\", revision=\"cc\")"), "{model}");
        assert!(model.ends_with("PeftModel.from_pretrained(base, \"ADAPTER\")"), "{model}");
        let served = "vllm serve a/b --revision cc --enable-lora --max-lora-rank 16 --lora-modules trained=ADAPTER";
        assert!(engines.contains(served) && engines.contains("--base hf:a/b@cc"), "{engines}");
        let folder = commands(&Base::Folder("mine".to_owned()), Some(&lora));
        assert!(folder.placeholders.contains("`BASE` the model that it belongs to, `mine`"), "{}", folder.placeholders);
        assert!(folder.engines.contains("vllm serve BASE --enable-lora"), "{}", folder.engines);
        let model = commands(&base, None);
        assert!(model.engines.contains("vllm serve MODEL`") && !model.imports.contains("peft"));
    }
}
