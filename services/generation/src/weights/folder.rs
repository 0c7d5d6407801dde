//! Whether a folder of weights is worth pausing an engine for. vLLM itself only warns of a missing tensor and goes on with the
//! old one.

use std::fmt::Display;
use std::path::Path;

use evenkeel_hf::{Folder, tensor_shapes, weight_files};
use evenkeel_proto::FieldError;
use serde::Deserialize;

use super::target::Target;
use crate::model::{Model, identity};

/// The field of a request that names the folder.
pub(super) const FIELD: &str = "weights.path.path";
/// Tied models may leave it out.
const HEAD: &str = "lm_head.weight";

/// What a marker may say. Markers of others may say nothing.
#[derive(Deserialize)]
struct Marker {
    version: Option<u64>,
    digest: Option<String>,
}

/// Refuses a folder that is missing, unfinished, of another model or with a tensor missing.
pub(super) fn check_folder(target: &Target, marker: &str, model: Option<&Model>) -> Result<(), FieldError> {
    let folder = Path::new(&target.path);
    let refused =
        |what: &dyn Display, allowed: &str| FieldError::new(FIELD, format_args!("`{}`, {what}", target.path), allowed);
    if !folder.is_dir() {
        return Err(refused(
            &"which is no folder here",
            "a folder with weights that this service and its engines can read",
        ));
    }
    if !marker.is_empty() {
        check_marker(target, &folder.join(marker))?;
    }
    let folder = Folder::new(folder);
    let files = weight_files(&folder).map_err(|error| refused(&error, "a readable folder"))?;
    if files.is_empty() {
        return Err(refused(&"which holds no *.safetensors", "a folder with weights"));
    }
    let Some(model) = model.filter(|model| model.is_known()) else { return Ok(()) };
    let (architecture, vocabulary) = identity(&folder)
        .map_err(|error| refused(&error, "a folder whose config.json names architectures and vocab_size"))?;
    let served = &model.info;
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
    let shapes = tensor_shapes(&folder).map_err(|error| refused(&error, "whole safetensors files"))?;
    for (name, shape) in &model.shapes {
        match shapes.get(name) {
            Some(found) if found == shape => {}
            Some(found) => {
                return Err(refused(&format_args!("whose {name} is {found:?}"), &format!("{shape:?}")));
            }
            None if name == HEAD => {}
            None => return Err(refused(&format_args!("which lacks {name}"), "every tensor of the model")),
        }
    }
    Ok(())
}

fn check_marker(target: &Target, marker: &Path) -> Result<(), FieldError> {
    let said =
        |what: &dyn Display, allowed: &str| FieldError::new(FIELD, format_args!("`{}`, {what}", target.path), allowed);
    let Ok(text) = std::fs::read_to_string(marker) else {
        let name = marker.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        return Err(said(&format_args!("without {name}"), "a folder that is whole, which this file says"));
    };
    let Ok(marker) = serde_json::from_str::<Marker>(&text) else { return Ok(()) };
    if let Some(version) = marker.version.filter(|&version| version != target.version) {
        return Err(said(&format_args!("of version {version}"), &format!("version {}, as asked", target.version)));
    }
    if let Some(digest) = marker.digest.filter(|digest| *digest != target.digest) {
        return Err(said(&format_args!("of digest {digest}"), &format!("{}, as asked", target.digest)));
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
    fn a_whole_folder_passes_and_a_broken_one_is_named() {
        let base = folder(NAMES, CONFIG);
        let model = Model::read("m", base.path());
        assert_eq!(model.info.parameters, 6);
        let target = |folder: &tempfile::TempDir| Target {
            version: 3,
            digest: "d".into(),
            label: None,
            path: folder.path().to_str().unwrap().to_owned(),
        };
        let refused = |target: &Target| check_folder(target, "done.json", Some(&model)).unwrap_err().to_string();
        assert_eq!(check_folder(&target(&base), "done.json", Some(&model)), Ok(()));
        let tied = folder(&NAMES[..1], CONFIG);
        assert_eq!(check_folder(&target(&tied), "done.json", Some(&model)), Ok(()));

        let cut = |error: String, end: &str| assert!(error.ends_with(end), "{error}");
        cut(refused(&Target { version: 4, ..target(&base) }), "allowed: version 4, as asked");
        cut(refused(&Target { digest: "e".into(), ..target(&base) }), "allowed: e, as asked");
        cut(refused(&target(&folder(&[("b.weight", 4)], CONFIG))), "allowed: every tensor of the model");
        cut(refused(&target(&folder(&[("a.weight", 5)], CONFIG))), "allowed: [4]");
        cut(refused(&target(&folder(NAMES, &CONFIG.replace('9', "8")))), "allowed: 9, as the engines serve");
        cut(
            refused(&target(&folder(NAMES, &CONFIG.replace("Qwen3", "Llama")))),
            "allowed: a Qwen3ForCausalLM, as the engines serve",
        );
        let unfinished = folder(NAMES, CONFIG);
        fs::remove_file(unfinished.path().join("done.json")).unwrap();
        cut(refused(&target(&unfinished)), "allowed: a folder that is whole, which this file says");
        let short = folder(NAMES, CONFIG);
        let bytes = safetensors(NAMES);
        fs::write(short.path().join("model.safetensors"), &bytes[..bytes.len() - 1]).unwrap();
        cut(refused(&target(&short)), "allowed: whole safetensors files");
        cut(
            refused(&Target { path: "/nowhere".into(), ..target(&base) }),
            "that this service and its engines can read",
        );
    }
}
