//! Validation of a folder of weights before any engine is paused for it: an engine may only warn about a missing tensor
//! and keep the old one.

use std::fmt::Display;
use std::path::Path;

use evenkeel_model_folder::{AdapterConfig, Folder, HEAD, HeadForm, WeightFiles};
use evenkeel_proto::FieldError;
use serde::Deserialize;

use super::adapter;
use super::refusal::refused;
use crate::model::{Identity, Model, identity};
use crate::pool::WeightsVersion;

const MAX_MARKER_BYTES: u64 = 1 << 20;

/// The fields of a marker. Those of other programs may have none.
#[derive(Deserialize)]
struct Marker {
    version: Option<u64>,
    digest: Option<String>,
}

/// Refuses a folder that is missing, incomplete or of another model, or that lacks a tensor.
pub(super) fn check_folder(
    path: &str,
    weights: &WeightsVersion,
    marker: &str,
    model: Option<&Model>,
) -> Result<(), FieldError> {
    let folder = Path::new(path);
    let refused = |what: &dyn Display, allowed: &str| refused(path, what, allowed);
    if !folder.is_dir() {
        return Err(refused(
            &"which is not a folder here",
            "a folder with weights that this service and its engines can read",
        ));
    }
    if !marker.is_empty() {
        check_marker(path, weights, marker)?;
    }
    let folder = Folder::new(folder);
    let files = WeightFiles::read(&folder).map_err(|error| refused(&error, "a readable folder"))?;
    if files.is_empty() {
        return Err(refused(&"which holds no *.safetensors", "a folder with weights"));
    }
    if AdapterConfig::is_in(folder.path()) {
        return adapter::check(path, &folder, &files, model);
    }
    let Some((model, served)) = model.and_then(|model| Some((model, model.info.as_ref()?))) else { return Ok(()) };
    let Identity { architecture, vocabulary_size: vocabulary, head } = identity(&folder)
        .map_err(|error| refused(&error, "a folder whose config.json has architectures and vocab_size"))?;
    if architecture != served.architecture {
        return Err(refused(
            &format_args!("a {architecture}"),
            &format!("a {}, as the engines serve", served.architecture),
        ));
    }
    if vocabulary != served.vocabulary_size {
        let allowed = format!("{}, as the engines serve", served.vocabulary_size);
        return Err(refused(&format_args!("of {vocabulary} tokens"), &allowed));
    }
    if model.shapes.is_empty() {
        return Ok(());
    }
    let shapes = files.shapes().map_err(|error| refused(&error, "complete safetensors files"))?;
    for (name, shape) in &model.shapes {
        match shapes.get(name) {
            Some(found) if found == shape => {}
            Some(found) => {
                return Err(refused(&format_args!("whose {name} is {found:?}"), &format!("{shape:?}")));
            }
            // Whether its engine takes it then is asked of each.
            None if name == HEAD && head == HeadForm::Tied => {}
            // The name belongs to what is allowed, which is never cut.
            None => {
                let allowed = format!("every tensor of the model, of which {name} is missing");
                return Err(refused(&"which lacks a tensor", &allowed));
            }
        }
    }
    Ok(())
}

fn check_marker(path: &str, weights: &WeightsVersion, name: &str) -> Result<(), FieldError> {
    let refused = |what: &dyn Display, allowed: &str| refused(path, what, allowed);
    let content = evenkeel_host::read_optional(&Path::new(path).join(name), MAX_MARKER_BYTES);
    let content = content.map_err(|error| refused(&format_args!("whose {name} {error}"), "a readable file"))?;
    let Some(content) = content else {
        return Err(refused(&format_args!("without {name}"), "a complete folder, which this file marks"));
    };
    let Ok(marker) = serde_json::from_slice::<Marker>(&content) else { return Ok(()) };
    if let Some(version) = marker.version.filter(|&version| version != weights.number) {
        return Err(refused(
            &format_args!("of version {version}"),
            &format!("version {}, as requested", weights.number),
        ));
    }
    if let Some(digest) = marker.digest.filter(|digest| *digest != weights.digest) {
        return Err(refused(&format_args!("of digest {digest}"), &format!("{}, as requested", weights.digest)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn safetensors(names: &[(&str, u64)]) -> Vec<u8> {
        let mut end = 0;
        let tensors = names.iter().map(|(name, size)| {
            let begin = end;
            end += 4 * size;
            format!(r#""{name}":{{"dtype":"F32","shape":[{size}],"data_offsets":[{begin},{end}]}}"#)
        });
        let head = format!("{{{}}}", tensors.collect::<Vec<_>>().join(","));
        let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(head.as_bytes());
        bytes.resize(bytes.len() + end as usize, 0);
        bytes
    }

    fn folder(names: &[(&str, u64)], config: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), config).unwrap();
        fs::write(folder.path().join("model.safetensors"), safetensors(names)).unwrap();
        fs::write(folder.path().join("done.json"), r#"{"version":3,"digest":"d"}"#).unwrap();
        folder
    }

    const CONFIG: &str = r#"{"architectures":["Qwen3ForCausalLM"],"vocab_size":9}"#;
    const NAMES: &[(&str, u64)] = &[("a.weight", 4), ("lm_head.weight", 2)];

    #[test]
    fn a_complete_folder_passes_and_a_broken_one_is_refused_by_name() {
        let base = folder(NAMES, CONFIG);
        let model = Model::read("m", base.path());
        assert_eq!(model.info.as_ref().unwrap().parameters, 6);
        let version =
            |number, digest: &str| WeightsVersion { number, digest: digest.into(), ..WeightsVersion::initial(None) };
        let check = |folder: &Path, weights: WeightsVersion| {
            check_folder(folder.to_str().unwrap(), &weights, "done.json", Some(&model))
        };
        let refused_as = |folder: &tempfile::TempDir, weights| check(folder.path(), weights).unwrap_err().to_string();
        let refused = |folder: &tempfile::TempDir| refused_as(folder, version(3, "d"));
        assert_eq!(check(base.path(), version(3, "d")), Ok(()));
        let tied = folder(&NAMES[..1], &CONFIG.replace('}', r#","tie_word_embeddings":true}"#));
        assert_eq!(check(tied.path(), version(3, "d")), Ok(()));
        let error = check(folder(&NAMES[..1], CONFIG).path(), version(3, "d")).unwrap_err().to_string();
        assert!(error.ends_with("every tensor of the model, of which lm_head.weight is missing"), "{error}");

        let cut = |error: String, end: &str| assert!(error.ends_with(end), "{error}");
        cut(refused_as(&base, version(4, "d")), "allowed: version 4, as requested");
        cut(refused_as(&base, version(3, "e")), "allowed: e, as requested");
        cut(refused(&folder(&[("b.weight", 4)], CONFIG)), "every tensor of the model, of which a.weight is missing");
        cut(refused(&folder(&[("a.weight", 5)], CONFIG)), "allowed: [4]");
        cut(refused(&folder(NAMES, &CONFIG.replace('9', "8"))), "allowed: 9, as the engines serve");
        cut(
            refused(&folder(NAMES, &CONFIG.replace("Qwen3", "Llama"))),
            "allowed: a Qwen3ForCausalLM, as the engines serve",
        );
        let unfinished = folder(NAMES, CONFIG);
        fs::remove_file(unfinished.path().join("done.json")).unwrap();
        cut(refused(&unfinished), "allowed: a complete folder, which this file marks");
        let short = folder(NAMES, CONFIG);
        let bytes = safetensors(NAMES);
        fs::write(short.path().join("model.safetensors"), &bytes[..bytes.len() - 1]).unwrap();
        cut(refused(&short), "allowed: complete safetensors files");
        cut(
            check(Path::new("/nowhere"), version(3, "d")).unwrap_err().to_string(),
            "that this service and its engines can read",
        );
    }
}
