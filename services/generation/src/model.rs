//! The model that engines serve, if its folder can be read from here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use evenkeel_model_folder::{
    ConfigFile, EMBEDDING, Folder, FolderError, HEAD, HeadForm, TensorShapes, WeightFiles, tensor_shapes,
    tensors_digest,
};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{self as wire, ModelInfo};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Model {
    /// What other servers must agree on. `None` if its folder cannot be read.
    pub(crate) info: Option<ModelInfo>,
    /// Names and shapes of the model's tensors. Empty if they cannot be read.
    pub(crate) shapes: TensorShapes,
    folder: PathBuf,
    /// What is known of its weights, once it was asked for.
    digests: Arc<OnceLock<Option<BTreeSet<String>>>>,
}

impl Model {
    /// Reads the folder that an engine reports. Engines on other machines report a path or a name that means nothing
    /// here.
    pub(crate) fn read(name: &str, root: &Path) -> Self {
        let folder = Folder::new(root);
        let digests = Arc::default();
        match identity(&folder) {
            Ok(Identity { architecture, vocabulary_size, head }) => {
                let shapes = tensor_shapes(&folder).unwrap_or_default();
                let info = ModelInfo {
                    architecture,
                    parameters: shapes.values().map(|shape| shape.iter().product::<u64>()).sum(),
                    vocabulary_size,
                    context_tokens: 0,
                    tokenizer_digest: folder.tokenizer_digest().unwrap_or_default(),
                    head: wire_form(head).into(),
                };
                Self { info: Some(info), shapes, folder: root.to_owned(), digests }
            }
            Err(error) => {
                tracing::warn!(model = name, %error, root = %root.display(), "the model's folder cannot be read here: \
                    token ids are not checked against its vocabulary");
                Self { info: None, shapes: BTreeMap::new(), folder: root.to_owned(), digests }
            }
        }
    }

    /// The digests of its tensors, with a tied head in either of its forms. Reads all weights, the first time. `None`
    /// if they cannot be read.
    pub(crate) fn digests(&self) -> Option<&BTreeSet<String>> {
        let read = || {
            let folder = Folder::new(&self.folder);
            let head = identity(&folder)?.head;
            let mut tensors = WeightFiles::read(&folder)?.tensor_digests(|| true)?;
            let mut digests = BTreeSet::from([tensors_digest(&tensors)]);
            match (head, tensors.get(EMBEDDING).cloned()) {
                (HeadForm::Tied, Some(embedding)) => drop(tensors.insert(HEAD.to_owned(), embedding)),
                (HeadForm::WrittenOut, _) => drop(tensors.remove(HEAD)),
                _ => {}
            }
            digests.insert(tensors_digest(&tensors));
            Ok::<_, FolderError>(digests)
        };
        self.digests.get_or_init(|| read().ok()).as_ref()
    }

    /// Refuses an engine that serves another model. Models whose folders cannot be read pass.
    pub(crate) fn check_same(&self, other: &Self) -> Result<(), FieldError> {
        let (Some(mine), Some(theirs)) = (&self.info, &other.info) else { return Ok(()) };
        let same = |field: &str, other: String, first: String| {
            let allowed = format!("{first}, as the first engine has");
            if first == other { Ok(()) } else { Err(FieldError::new(field, other, allowed)) }
        };
        same("architecture", theirs.architecture.clone(), mine.architecture.clone())?;
        same("vocab_size", theirs.vocabulary_size.to_string(), mine.vocabulary_size.to_string())?;
        same("tokenizer.json", theirs.tokenizer_digest.clone(), mine.tokenizer_digest.clone())
    }
}

/// What a folder's `config.json` says.
pub(crate) struct Identity {
    pub(crate) architecture: String,
    pub(crate) vocabulary_size: u32,
    pub(crate) head: HeadForm,
}

pub(crate) fn identity(folder: &Folder) -> Result<Identity, FolderError> {
    let config = ConfigFile::read(folder)?;
    Ok(Identity {
        architecture: config.architecture()?.to_owned(),
        vocabulary_size: config.vocab_size()?,
        head: HeadForm::of(config.json()),
    })
}

fn wire_form(head: HeadForm) -> wire::HeadForm {
    match head {
        HeadForm::Own => wire::HeadForm::Own,
        HeadForm::Tied => wire::HeadForm::Tied,
        HeadForm::WrittenOut => wire::HeadForm::WrittenOut,
    }
}
