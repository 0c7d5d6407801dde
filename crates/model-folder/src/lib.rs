//! Hugging Face model folders, read once and the same way by every service.
//!
//! A [`Folder`] is a directory as transformers and engines write and read it. From it come
//! - `config.json` as a [`ConfigFile`],
//! - `tokenizer.json` as a [`Tokenizer`], with the digest by which services compare tokenizers, and [`ControlText`] for
//!   texts that must not become control tokens,
//! - the [`EosTokens`] that end a response, from three files that may name different ones,
//! - the [`ChatTemplates`] that turn messages into a prompt, as text, and the [`SpecialTokens`] that they see,
//! - what the safetensors files hold ([`WeightFiles`], [`tensor_shapes`], [`weights_digest`], [`tensor_digest`],
//!   [`tensors_digest`]),
//! - whether the head is the embedding ([`HeadForm`]), and copies in which it is written out ([`write_untied`]),
//! - the [`AdapterConfig`] of a LoRA adapter,
//! - the [`VersionMarker`] of published weights.
//!
//! Every file is bounded in size. Loading tensors and computing with them is not this crate's work: it links no tensor
//! library.
#![forbid(unsafe_code)]

mod adapter_config;
mod chat_template;
mod config;
mod control_text;
mod end_tokens;
mod error;
mod folder;
mod growth;
mod special_tokens;
mod tensor_digest;
mod tensors_digest;
mod tied_head;
mod tokenizer;
mod untied_copy;
mod version_marker;
mod weights;

pub use adapter_config::AdapterConfig;
pub use chat_template::ChatTemplates;
pub use config::ConfigFile;
pub use control_text::{ControlText, ControlTokens, MARK};
pub use end_tokens::{EosTokens, eos_token_ids};
pub use error::{FileProblem, FolderError, HeaderError};
pub use folder::{COMPANION_FILES, Folder, name};
pub use special_tokens::SpecialTokens;
pub use tensor_digest::{FloatType, TensorPart, tensor_digest};
pub use tensors_digest::{TensorDigests, tensors_digest};
pub use tied_head::{EMBEDDING, HEAD, HeadForm, WRITTEN_OUT, with_head_tied, with_head_written_out};
pub use tokenizer::{TextError, Tokenizer};
pub use untied_copy::{UntiedCopy, write_untied};
pub use version_marker::VersionMarker;
pub use weights::{
    StoredTensor, TensorShapes, WeightFiles, absent_weights, files_digest, folder_files_digest, tensor_shapes,
    tensors_metadata, weight_digests, weights_digest, weights_digest_among, weights_digest_of,
};
