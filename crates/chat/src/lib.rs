//! What a model is asked: prompts and messages, and how a chat template turns them into text and tokens.
#![forbid(unsafe_code)]

mod prompt;

pub use prompt::{Message, Prompt};
