//! Honest answers of mathematics with the outcome that each has.

use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{MathTask, Outcome, VerifyItem};

/// A gold answer, a completion, and what comes out.
const ANSWERS: [(&str, &str, Outcome); 26] = [
    ("42", r"So the answer is \boxed{42}.", Outcome::Correct),
    ("42", r"So the answer is \boxed{41}.", Outcome::Incorrect),
    (r"\frac{3}{4}", r"Hence $\boxed{0.75}$.", Outcome::Correct),
    (r"\frac{3}{4}", r"Hence $\boxed{\dfrac{6}{8}}$.", Outcome::Correct),
    (r"\frac{3}{4}", r"Hence $\boxed{\frac{4}{3}}$.", Outcome::Incorrect),
    (r"\sqrt{8}", r"\boxed{2\sqrt{2}}", Outcome::Correct),
    (r"\sqrt{8}", r"\boxed{2\sqrt{3}}", Outcome::Incorrect),
    (r"x^2+2x+1", r"\boxed{(x+1)^2}", Outcome::Correct),
    (r"x^2+2x+1", r"\boxed{(x-1)^2}", Outcome::Incorrect),
    (r"(1,2)", r"\boxed{(1, 2)}", Outcome::Correct),
    (r"(1,2)", r"\boxed{(2, 1)}", Outcome::Incorrect),
    (r"\{1,2,3\}", r"\boxed{\{3,2,1\}}", Outcome::Correct),
    (r"[0,1)", r"\boxed{[0,1)}", Outcome::Correct),
    (r"[0,1)", r"\boxed{[0,1]}", Outcome::Incorrect),
    (r"50\%", r"\boxed{\frac12}", Outcome::Correct),
    (r"x=5", r"\boxed{5}", Outcome::Correct),
    (r"\pi", r"\boxed{3}", Outcome::Incorrect),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\boxed{\begin{pmatrix}1&2\\3&4\end{pmatrix}}", Outcome::Correct),
    (r"7", r"I could not find it.", Outcome::NoAnswer),
    (r"7", "<think> it is \\boxed{7}", Outcome::NoAnswer),
    (r"3", "所以，x=\\boxed{3}", Outcome::Correct),
    (r"\text{Tuesday}", r"\boxed{\text{tuesday}}", Outcome::Correct),
    (r"2^{100}", r"\boxed{1267650600228229401496703205376}", Outcome::Correct),
    (r"2^{100}", r"\boxed{1267650600228229401496703205377}", Outcome::Incorrect),
    (r"1,000,000", r"\boxed{10^6}", Outcome::Correct),
    (r"\binom{20}{10}", r"\boxed{184756}", Outcome::Correct),
];

/// Heavier ones: identities that have to be multiplied out, and long texts to look through.
fn heavy(index: usize) -> (String, String, Outcome) {
    match index {
        0 => (r"(x+y+z)^8".into(), r"Thus \boxed{(z+x+y)^4 (x+y+z)^4}".into(), Outcome::Correct),
        1 => (r"(x+y+z)^8".into(), r"Thus \boxed{(x+y+z)^8+1}".into(), Outcome::Incorrect),
        2 => (r"\sqrt{2}+\sqrt{3}".into(), r"\boxed{\sqrt{5+2\sqrt{6}}}".into(), Outcome::Correct),
        _ => {
            let step = "We try $x = 3$ and find \\boxed{3}, which is too small, so we go on. ";
            (r"17".into(), format!("{}\n\nFinally \\boxed{{17}}", step.repeat(2_000)), Outcome::Correct)
        }
    }
}

/// Different problems.
pub(crate) const PROBLEMS: usize = ANSWERS.len() + 4;

/// A problem's item without an id, and the outcome that it has.
pub(crate) fn item(problem: usize) -> (VerifyItem, Outcome) {
    let (gold, completion, outcome) = match ANSWERS.get(problem) {
        Some(&(gold, completion, outcome)) => (gold.to_owned(), completion.to_owned(), outcome),
        None => heavy(problem - ANSWERS.len()),
    };
    let item = VerifyItem {
        answer: Some(Answer::Completion(completion)),
        task: Some(Task::Math(MathTask { gold, ..MathTask::default() })),
        ..VerifyItem::default()
    };
    (item, outcome)
}
