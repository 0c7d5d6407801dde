//! What a judge is asked.

/// An answer to be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Text of the row's prompt, which the answer answers.
    pub prompt: String,
    /// What a good answer would be; `None` where the row has none.
    pub reference: Option<String>,
    /// The answer as it was sampled.
    pub answer: String,
}
