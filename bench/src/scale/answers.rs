//! Plain answers, half of them right: fractions, powers and sums as models write them.

use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{MathTask, VerifyItem};

pub(crate) fn answers(count: usize) -> Vec<VerifyItem> {
    (0..count).map(answer).collect()
}

fn answer(n: usize) -> VerifyItem {
    let power = n % 5;
    let completion = format!("Let us see. The answer is $\\boxed{{2^{{{power}}}+\\frac{{{}}}{{7}}}}$.", n + 1 + n % 2);
    VerifyItem {
        id: n.to_string(),
        answer: Some(Answer::Completion(completion)),
        task: Some(Task::Math(MathTask {
            gold: format!("\\frac{{{}}}{{7}}+2^{{{power}}}", n + 1),
            ..MathTask::default()
        })),
        ..VerifyItem::default()
    }
}
