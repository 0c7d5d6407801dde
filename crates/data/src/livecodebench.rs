//! Programming questions in the words in which LiveCodeBench asks them (`lcb_runner/prompts/code_generation.py`, July
//! 2025).

use evenkeel_chat::{Message, Prompt};

const SYSTEM: &str = "You are an expert Python programmer. You will be given a question (problem specification) and \
                      will generate a correct Python program that matches the specification and passes all tests.";
const WITH_STARTER_CODE: &str = "You will use the following starter code to write the solution to the problem and \
                                 enclose your code within delimiters.";
const WITHOUT_STARTER_CODE: &str = "Read the inputs from stdin solve the problem and write the answer to stdout (do \
                                    not directly test on the sample inputs). Enclose your code within delimiters as \
                                    follows. Ensure that when the python program runs, it reads the inputs, runs the \
                                    algorithm and writes output to STDOUT.";
/// Stands in every question that is in these words already.
const QUESTION: &str = "### Question";

/// A question as LiveCodeBench asks it: a message of the system and one of the user, or both as one text for models
/// without a chat template. A statement that is in these words already stays as it is.
pub(crate) fn prompt(statement: &str, starter_code: Option<&str>) -> Prompt {
    if statement.contains(QUESTION) {
        return Prompt::Text(statement.to_owned());
    }
    let format = match starter_code {
        Some(code) => format!("### Format: {WITH_STARTER_CODE}\n```python\n{code}\n```\n\n"),
        None => format!("### Format: {WITHOUT_STARTER_CODE}\n```python\n# YOUR CODE HERE\n```\n\n"),
    };
    let user = format!("{QUESTION}:\n{statement}\n\n{format}### Answer: (use the provided format with backticks)\n\n");
    let text = format!("{SYSTEM}\n\n{user}");
    Prompt::Either { messages: vec![Message::text("system", SYSTEM), Message::text("user", &user)], text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_asked_in_the_published_words() {
        let Prompt::Either { messages, text } = prompt("Double n.", None) else { panic!("both forms") };
        let expected = "### Question:\nDouble n.\n\n\
                        ### Format: Read the inputs from stdin solve the problem and write the answer to stdout (do \
                        not directly test on the sample inputs). Enclose your code within delimiters as follows. \
                        Ensure that when the python program runs, it reads the inputs, runs the algorithm and writes \
                        output to STDOUT.\n```python\n# YOUR CODE HERE\n```\n\n\
                        ### Answer: (use the provided format with backticks)\n\n";
        assert_eq!(messages[1], Message::text("user", expected));
        assert_eq!(messages[0].role(), "system");
        assert_eq!(text, format!("{SYSTEM}\n\n{expected}"));
        let Prompt::Either { text, .. } = prompt("Double x.", Some("def f(x):\n    ")) else { panic!("both forms") };
        let words = "use the following starter code to write the solution to the problem and enclose your code within \
                     delimiters.\n\
                     ```python\ndef f(x):\n    \n```\n\n### Answer";
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn a_question_in_these_words_is_not_asked_twice() {
        let asked = "### Question:\nDouble n.\n";
        assert_eq!(prompt(asked, None), Prompt::Text(asked.into()));
    }
}
