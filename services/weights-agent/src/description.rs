//! What the learner says that a version consists of, checked before anything is made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use evenkeel_host::FileDigest;
use evenkeel_model_folder::{COMPANION_FILES, VersionMarker, files_digest, name, weights_digest_among};
use evenkeel_proto::v1::{WeightsDescribeResponse, WeightsFile};
use evenkeel_proto::{FieldError, validate_digest};

/// Most files of a version.
const MAX_FILES: usize = 100_000;
/// The files of a version beside its weights and the files of its tokenizer.
const PUBLISHED: [&str; 4] = [name::CONFIG, name::WEIGHTS_INDEX, name::ADAPTER_CONFIG, VersionMarker::NAME];

/// What a caller wants.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) version: u64,
    /// The digest of the weights.
    pub(crate) digest: String,
    /// The digest of all files of the folder; empty if the caller does not know it.
    pub(crate) files_digest: String,
}

/// Refuses a description that is none of the wanted folder, or whose names would lead out of a folder.
pub(crate) fn validate(description: &WeightsDescribeResponse, wanted: &Wanted) -> Result<(), FieldError> {
    let files = &description.files;
    FieldError::ensure(files.len() <= MAX_FILES, "files", files.len(), format!("at most {MAX_FILES}"))?;
    let mut names = BTreeSet::new();
    for (at, file) in files.iter().enumerate() {
        let refused = |field: &str| format!("files[{at}].{field}");
        let is_plain = Path::new(&file.name).file_name().is_some_and(|plain| plain == file.name.as_str());
        if !is_plain || !is_published(&file.name) || !names.insert(&file.name) {
            let allowed = "the name of a file that a learner publishes, each once";
            return Err(FieldError::quoted(refused("name"), &file.name, allowed));
        }
        validate_digest(&refused("digest"), &file.digest)?;
        let mut sum = Some(0_u64);
        for part in &file.parts {
            validate_digest(&refused("parts.digest"), &part.digest)?;
            sum = sum.filter(|_| part.size_bytes > 0).and_then(|sum| sum.checked_add(part.size_bytes));
        }
        if sum != Some(file.size_bytes) {
            let allowed = format!("parts that are {} bytes together", file.size_bytes);
            return Err(FieldError::new(refused("parts"), format_args!("{sum:?}"), allowed));
        }
    }
    let found = digest(files);
    let Wanted { digest, files_digest, .. } = wanted;
    FieldError::ensure(found == *digest, "digest", &found, format!("{digest}, as requested"))?;
    let found = digest_of_all(files);
    let is_wanted = files_digest.is_empty() || found == *files_digest;
    FieldError::ensure(is_wanted, "files_digest", &found, format!("{files_digest}, as requested"))
}

/// Whether a version may have a file of this name: an engine may run more of a folder than weights, and the caller may
/// not know the digest of all files.
fn is_published(file: &str) -> bool {
    let is_weights = file.ends_with(".safetensors") && !file.starts_with('.');
    is_weights || PUBLISHED.contains(&file) || COMPANION_FILES.contains(&file)
}

/// The digest of the weights whose files these are.
fn digest(files: &[WeightsFile]) -> String {
    let has_tensors = |file: &WeightsFile| file.parts.iter().any(|part| !part.tensor.is_empty());
    let files = files.iter().map(|file| (file.name.as_str(), file_digest(file), has_tensors(file)));
    weights_digest_among(files)
}

/// The digest of all files, of which an engine reads more than the weights: how a prompt is rendered is in the
/// tokenizer's.
pub(crate) fn digest_of_all(files: &[WeightsFile]) -> String {
    files_digest(files.iter().map(|file| (file.name.as_str(), file_digest(file))))
}

/// The digest that a file must have.
pub(crate) fn file_digest(file: &WeightsFile) -> FileDigest {
    FileDigest { bytes: file.size_bytes, sha256: file.digest.trim_start_matches("sha256:").to_owned() }
}

/// Consecutive bytes of a file, and where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Where they begin in the file.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Where they begin in the file of the same name of the copy before; absent: they are fetched.
    pub(crate) here: Option<u64>,
}

/// Where the bytes of a file come from: what has the same digest in the file `before` is taken from there. As few
/// segments as there can be.
pub(crate) fn segments(file: &WeightsFile, before: Option<&WeightsFile>) -> Vec<Segment> {
    let mut known = BTreeMap::new();
    let mut offset = 0;
    for part in before.iter().flat_map(|before| &before.parts) {
        known.entry((part.size_bytes, part.digest.as_str())).or_insert(offset);
        offset += part.size_bytes;
    }
    let mut segments: Vec<Segment> = Vec::new();
    let mut begin = 0;
    for part in &file.parts {
        let end = begin + part.size_bytes;
        let here = known.get(&(part.size_bytes, part.digest.as_str())).copied();
        let continues = |last: &Segment| last.here.map(|at| at + (last.end - last.begin)) == here;
        match segments.last_mut().filter(|last| continues(last)) {
            Some(last) => last.end = end,
            None => segments.push(Segment { begin, end, here }),
        }
        begin = end;
    }
    segments
}

#[cfg(test)]
mod tests {
    use evenkeel_host::sha256;
    use evenkeel_proto::v1::WeightsPart;

    use super::*;

    fn file(name: &str, parts: &[(&str, &str)]) -> WeightsFile {
        let whole: String = parts.iter().map(|(_, content)| *content).collect();
        let part = |(tensor, content): &(&str, &str)| WeightsPart {
            tensor: (*tensor).to_owned(),
            size_bytes: content.len() as u64,
            digest: sha256(content),
        };
        WeightsFile {
            name: name.into(),
            size_bytes: whole.len() as u64,
            digest: sha256(&whole),
            parts: parts.iter().map(part).collect(),
        }
    }

    fn wanted(digest: &str) -> Wanted {
        Wanted { version: 1, digest: digest.to_owned(), files_digest: String::new() }
    }

    fn weights() -> WeightsDescribeResponse {
        let files = vec![
            file("config.json", &[("", "{}")]),
            file("model.safetensors", &[("", "header"), ("a", "aaaa"), ("b", "bb"), ("c", "cccc")]),
        ];
        WeightsDescribeResponse { files }
    }

    #[test]
    fn a_description_is_that_of_the_wanted_weights_and_stays_within_its_folder() {
        let whole = weights();
        let wanted = wanted(&digest(&whole.files));
        assert_eq!(wanted.digest, sha256(file_digest(&whole.files[1]).sha256), "of the file with tensors alone");
        validate(&whole, &wanted).unwrap();
        let refused = |change: fn(&mut WeightsDescribeResponse)| {
            let mut changed = weights();
            change(&mut changed);
            validate(&changed, &wanted).unwrap_err().field
        };
        assert_eq!(refused(|changed| changed.files[0].name = "../x".into()), "files[0].name");
        assert_eq!(refused(|changed| changed.files[0].name = ".hidden".into()), "files[0].name");
        assert_eq!(refused(|changed| changed.files[0].name = "model.safetensors".into()), "files[1].name");
        assert_eq!(refused(|changed| changed.files[0].digest = "sha256:0".into()), "files[0].digest");
        assert_eq!(refused(|changed| changed.files[1].parts[1].size_bytes = 3), "files[1].parts");
        assert_eq!(refused(|changed| changed.files[1].parts[1].size_bytes = u64::MAX), "files[1].parts");
        assert_eq!(refused(|changed| changed.files[1].digest = sha256("other")), "digest");
        assert_eq!(refused(|changed| changed.files.truncate(1)), "digest");
    }

    #[test]
    fn a_caller_that_knows_the_digest_of_all_files_gets_no_others() {
        let whole = weights();
        let files_digest = digest_of_all(&whole.files);
        let lines = format!("config.json\0{}\nmodel.safetensors\0{}\n", hex(&whole.files[0]), hex(&whole.files[1]));
        assert_eq!(files_digest, sha256(lines), "as the protocol says");
        let wanted = Wanted { files_digest, ..wanted(&digest(&whole.files)) };
        validate(&whole, &wanted).unwrap();
        let planted = [file("config.json", &[("", "{\"eos_token_id\":0}")]), file("tokenizer.json", &[("", "{}")])];
        for planted in planted {
            let mut changed = weights();
            changed.files.retain(|file| file.name != planted.name);
            changed.files.push(planted);
            assert_eq!(validate(&changed, &wanted).unwrap_err().field, "files_digest");
        }
        let mut missing = weights();
        missing.files.remove(0);
        assert_eq!(validate(&missing, &wanted).unwrap_err().field, "files_digest");
    }

    fn hex(file: &WeightsFile) -> &str {
        file.digest.trim_start_matches("sha256:")
    }

    #[test]
    fn only_files_that_a_learner_publishes_are_taken() {
        let wanted = wanted(&digest(&weights().files));
        let named = |name: &str| {
            let mut changed = weights();
            changed.files[0] = file(name, &[("", "{}")]);
            validate(&changed, &wanted)
        };
        for name in COMPANION_FILES.iter().chain(&PUBLISHED) {
            named(name).unwrap();
        }
        for planted in ["modeling_evil.py", "pytorch_model.bin", "preprocessor_config.json", ".x.safetensors"] {
            let error = named(planted).unwrap_err().to_string();
            assert!(error.contains(planted) && error.contains("a file that a learner publishes"), "{error}");
        }
    }

    #[test]
    fn only_what_changed_is_fetched_in_as_few_segments_as_there_can_be() {
        let new = file("m", &[("", "header"), ("a", "aaaa"), ("b", "BB"), ("c", "cccc")]);
        let old = file("m", &[("", "header"), ("a", "aaaa"), ("b", "bb"), ("c", "cccc")]);
        let segment = |begin, end, here| Segment { begin, end, here };
        assert_eq!(segments(&new, None), [segment(0, 16, None)]);
        let expected = [segment(0, 10, Some(0)), segment(10, 12, None), segment(12, 16, Some(12))];
        assert_eq!(segments(&new, Some(&old)), expected);
        assert_eq!(segments(&old, Some(&old)), [segment(0, 16, Some(0))]);
        // A tensor that has moved is found as well.
        let moved = file("m", &[("", "longer header"), ("c", "cccc"), ("a", "aaaa")]);
        let expected = [segment(0, 13, None), segment(13, 17, Some(12)), segment(17, 21, Some(6))];
        assert_eq!(segments(&moved, Some(&old)), expected);
    }
}
