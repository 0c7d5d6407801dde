//! The files that a model needs of all that its repository has.

use std::collections::BTreeSet;

use evenkeel_errors::FieldError;
use evenkeel_host::Size;
use evenkeel_model_folder::{COMPANION_FILES, absent_weights, name};

use crate::error::HubError;
use crate::listing::{Listing, RemoteFile};

/// Largest file that is not one of weights, in bytes: several times the largest published tokenizer.
const MAX_SMALL: u64 = 256 << 20;

/// Configuration, tokenizer, templates, and the index of the weights if there is one: everything that is read before
/// the weights are.
///
/// # Errors
/// A repository without what every model has; one whose weights are pickled or quantised.
pub(crate) fn small_files<'a>(repository: &str, listing: &'a Listing) -> Result<Vec<&'a RemoteFile>, HubError> {
    for required in [name::CONFIG, name::TOKENIZER] {
        if listing.find(required).is_none() {
            let allowed = "the repository of a model in the format of transformers, with its tokenizer";
            return Err(FieldError::missing(format!("{required} of {repository}"), allowed).into());
        }
    }
    if listing.find(name::WEIGHTS_INDEX).is_none() && listing.find(name::WEIGHTS).is_none() {
        let names = listing.files.iter().map(|file| file.name.as_str());
        return Err(absent_weights(format!("weights of {repository}"), names).into());
    }
    let small: Vec<_> = listing.files.iter().filter(|file| is_small(&file.name)).collect();
    match small.iter().find(|file| file.size > MAX_SMALL) {
        Some(large) => {
            let field = format!("size of {} of {repository}", large.name);
            Err(FieldError::new(field, Size(large.size), format!("at most {}", Size(MAX_SMALL))).into())
        }
        None => Ok(small),
    }
}

/// The files of the weights: the shards that the index lists, or the one file.
///
/// # Errors
/// An index that lists what the repository does not have.
pub(crate) fn weights<'a>(
    repository: &str,
    listing: &'a Listing,
    shards: Option<BTreeSet<String>>,
) -> Result<Vec<&'a RemoteFile>, HubError> {
    let names = shards.unwrap_or_else(|| BTreeSet::from([name::WEIGHTS.to_owned()]));
    let find = |name: &String| {
        let missing = || FieldError::missing(format!("{name} of {repository}"), "every file that the index lists");
        listing.find(name).filter(|_| !name.contains('/')).ok_or_else(|| missing().into())
    };
    names.iter().map(find).collect()
}

pub(crate) fn is_small(file: &str) -> bool {
    let template = file.strip_prefix(name::CHAT_TEMPLATES).and_then(|rest| rest.strip_prefix('/'));
    let is_template =
        template.is_some_and(|rest| rest.ends_with(".jinja") && !rest.contains(['/', '\\']) && rest.len() > 6);
    file == name::CONFIG || file == name::WEIGHTS_INDEX || COMPANION_FILES.contains(&file) || is_template
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Digest;

    fn listing(names: &[&str]) -> Listing {
        let file =
            |name: &&str| RemoteFile { name: (*name).to_owned(), size: 1, digest: Digest::GitBlob("0".repeat(40)) };
        Listing { commit: "0".repeat(40), files: names.iter().map(file).collect() }
    }

    #[test]
    fn only_what_is_read_is_needed() {
        let all = listing(&[
            "README.md",
            "config.json",
            "tokenizer.json",
            "model.safetensors",
            "pytorch_model.bin",
            "onnx/model.onnx",
            "additional_chat_templates/rag.jinja",
            "additional_chat_templates/../x.jinja",
            "chat_template.jinja",
        ]);
        let names: Vec<_> = small_files("a/b", &all).unwrap().iter().map(|file| file.name.clone()).collect();
        let wanted = ["config.json", "tokenizer.json", "additional_chat_templates/rag.jinja", "chat_template.jinja"];
        assert_eq!(names, wanted);
        assert_eq!(weights("a/b", &all, None).unwrap()[0].name, "model.safetensors");
        let shards = BTreeSet::from(["model-1.safetensors".to_owned()]);
        let error = weights("a/b", &all, Some(shards)).unwrap_err().to_string();
        assert!(error.contains("model-1.safetensors of a/b"), "{error}");
    }

    #[test]
    fn a_repository_without_weights_that_can_be_read_is_refused_by_what_it_has() {
        for (file, words) in [
            ("pytorch_model.bin", "weights of a/b is pytorch_model.bin, allowed: model.safetensors, or shards with"),
            ("model-Q4_1.gguf", "evenkeel model import"),
            ("README.md", "weights of a/b"),
        ] {
            let error = small_files("a/b", &listing(&["config.json", "tokenizer.json", file])).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let mut huge = listing(&["config.json", "tokenizer.json", "model.safetensors"]);
        huge.files[1].size = 1 << 40;
        let error = small_files("a/b", &huge).unwrap_err().to_string();
        assert!(error.contains("size of tokenizer.json of a/b is 1.0 TiB, allowed: at most"), "{error}");
        let error = small_files("a/b", &listing(&["config.json", "model.safetensors"])).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json of a/b"), "{error}");
    }
}
