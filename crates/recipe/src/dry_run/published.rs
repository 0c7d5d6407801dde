//! Where models and data sets are published, for those that a recipe names and that are not there.

use std::path::Path;

/// What a path may contain, in lower case, and where that is published.
const PUBLISHED: &[(&str, &str)] = &[
    ("qwen2.5-math-7b", "https://huggingface.co/Qwen/Qwen2.5-Math-7B"),
    ("qwen3-1.7b", "https://huggingface.co/Qwen/Qwen3-1.7B"),
    ("dapo-math-17k", "https://huggingface.co/datasets/BytedTsinghua-SIA/DAPO-Math-17k (data/dapo-math-17k.parquet)"),
    ("polaris", "https://huggingface.co/datasets/POLARIS-Project/Polaris-Dataset-53K"),
    ("math-500", "https://huggingface.co/datasets/HuggingFaceH4/MATH-500 (test.jsonl)"),
    ("aime-2024", "https://huggingface.co/datasets/BytedTsinghua-SIA/AIME-2024 (data/aime-2024.parquet)"),
    ("aime-2025", "https://huggingface.co/datasets/math-ai/aime25 (test.jsonl)"),
    ("olympiadbench", "https://github.com/QwenLM/Qwen2.5-Math (evaluation/data/olympiadbench/test.jsonl)"),
    ("minerva", "https://github.com/QwenLM/Qwen2.5-Math (evaluation/data/minerva_math/test.jsonl)"),
    ("livecodebench", "https://huggingface.co/datasets/livecodebench/code_generation_lite (test*.jsonl)"),
];

/// Where the file or folder of this path is published, judged by its name.
pub(super) fn published_at(path: &Path) -> Option<&'static str> {
    let path = path.display().to_string().to_lowercase().replace('_', "-");
    PUBLISHED.iter().find(|(name, _)| path.contains(name)).map(|(_, place)| *place)
}

/// `, published as URL` where that is known.
pub(super) fn hint(path: &Path) -> String {
    published_at(path).map_or_else(String::new, |place| format!("; published as {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_known_by_its_name_in_any_spelling() {
        for (path, words) in [
            ("data/dapo-math-17k.parquet", "DAPO-Math-17k"),
            ("/data/AIME_2024/test.parquet", "AIME-2024"),
            ("data/livecodebench/*.jsonl", "code_generation_lite"),
            ("models/Qwen3-1.7B", "Qwen/Qwen3-1.7B"),
        ] {
            assert!(published_at(Path::new(path)).is_some_and(|place| place.contains(words)), "{path}");
        }
        assert_eq!(hint(Path::new("data/mine.jsonl")), "");
    }
}
