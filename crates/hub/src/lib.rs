//! Models of the Hugging Face hub by their names, such as `hf:HuggingFaceTB/SmolLM2-135M-Instruct@main`.
//!
//! [`Hub::fetch`] finds the commit that a name means and brings the files that a model needs, and no others, into the
//! cache that huggingface_hub uses. A download that breaks off goes on where it stopped; a file gets its name only when
//! its size and digest are those that the hub listed. Files that are in the cache already are compared with their
//! digests once. Where the hub cannot be asked, its last list of the commit's files says what belongs to the model. [`Environment`] reads the variables that transformers reads.
#![forbid(unsafe_code)]

mod cache;
mod download;
mod environment;
mod error;
mod fetch;
mod listing;
mod name;
mod needed;
mod request;
mod verify;
mod whole;

pub use environment::Environment;
pub use error::HubError;
pub use fetch::{Hub, Progress, Snapshot};
pub use name::ModelName;
pub use request::RetryPolicy;
