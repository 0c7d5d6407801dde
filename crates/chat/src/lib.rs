//! What a model is asked: prompts and messages, and how a chat template turns them into text and tokens.
//!
//! - [`Prompt`] and [`Message`] are what a data set asks.
//! - [`ChatTemplate`] renders a conversation as `apply_chat_template` of transformers does, byte for byte.
//! - [`PromptRenderer`] makes prompts of text and token ids, with the settings of a run.
//! - [`TurnRenderer`] gives the tokens that stand between two turns of a model, exact to the token.
//! - [`end_tokens`] are the tokens that end a response, the end of a turn in the template among them.
#![forbid(unsafe_code)]

mod chat;
mod conversation;
mod end_of_turn;
mod foreign;
mod prompt;
mod prompt_error;
mod python;
mod renderer;
mod roles;
mod template;
mod turns;
mod value;

pub use end_of_turn::end_tokens;
pub use prompt::{Message, Prompt};
pub use prompt_error::PromptError;
pub use renderer::{PromptRenderer, PromptSettings, RenderedPrompt};
pub use template::{ChatTemplate, RenderError, TemplateArguments};
pub use turns::{Observation, PastTurn, ToolsIn, TurnRenderer, TurnSettings};
pub use value::{NoJson, TemplateValue};
