use super::*;

fn taken_back(text: &str) -> bool {
    let at = text.find('7').unwrap();
    takes_back(&Extracted::One(text.get(at..at + 1).unwrap()), text)
}

#[test]
fn a_retraction_or_another_value_takes_an_answer_back() {
    for text in [
        "7. Wait, that is wrong: it is 8.",
        "7; that would be wrong.",
        "7. It could also be 8 or 9.",
        "7. This is false.",
        "7. Or 20.",
        "7. Otherwise I do not know.",
        "7\nActually 8.",
        "7; other possible values are 8 and 9",
        "7} is wrong.",
        "7. But that cannot be right.",
        "7. That is not correct.",
        "7. Nope.",
        "7! Incorrect.",
        "7\nNot 7 but 8",
        "7. Hold on, this is wrong",
        "7. I take it back.",
        "7\n\nEdit: 8",
        "7. Corrected answer: 8",
        "7. Correction: x = 8",
        "7} Wait, no.",
        "7</answer> is wrong.",
    ] {
        assert!(taken_back(text), "{text}");
    }
}

#[test]
fn other_sentences_do_not() {
    for text in [
        "7.",
        "7. I hope it is correct.",
        "7. Note that A is a common distractor.",
        "7. A is incorrect.",
        "7. This is not 8, since 8 is even.",
        "7. This means that it cannot be 8.",
        "7. It is not necessary to go on.",
        "7. This is the final answer.",
        "7. It is 8 more than -1.",
        "7\nCheck: 3 + 4 = 7.",
        "7; the other root is rejected.",
        "7, so the farmer earns that much.",
        "7}$ apples.",
        "7. The other options are wrong.",
        "7. Alternatively, 6 + 1 = 7.",
        "7. Not a prime, but it need not be.",
        "7</answer> is right.",
        "7. Incorrect options were removed first.",
    ] {
        assert!(!taken_back(text), "{text}");
    }
}
