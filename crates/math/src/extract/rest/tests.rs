use super::*;

fn known() -> Known {
    let mut known = Known::default();
    known.add("Janet's ducks lay 16 eggs per day. What is the maximum area? She has pairs of shoes.");
    known
}

fn accounted(after: &str) -> bool {
    is_accounted("So $", after, "36", &known())
}

#[test]
fn units_nouns_phrases_reasons_and_remarks_leave_a_box_the_answer() {
    for after in [
        "$.",
        "\\text{ cm}^2$",
        "^\\circ$",
        "$ cm².",
        "$ eggs",
        "$ square units",
        "$ distinct possible values for $B$.",
        "$ minutes to catch the elephant.",
        "$ times.",
        "$ eggs less than Tom.",
        "$ eggs for each of 3 friends",
        "$ more eggs than James",
        "$ minutes to watch the two movies",
        "$ is the smallest integer value that satisfies both conditions.",
        "$ matches played in each group.",
        "$ integers that satisfy the condition.",
        "$ apples in total",
        "$ after 5 years.",
        "$ is the smallest such integer.",
        "$ is the maximum area",
        "$, as required.",
        "$ and we are done",
        "$ — done",
        "$ since $6^2 = 36$.",
        "$, not 37",
        "$ (since $6^2 = 36$)",
        "$ (final answer)",
        "$ (see step 5)",
        "$ (mod 37)",
        "$ ✅",
        "$个",
        "$ 种不同的方法",
        "$です。",
        "$ рублей",
        "$</answer>",
        "$. It does not work.",
        "$, so the farmer is happy",
    ] {
        assert!(accounted(after), "{after}");
    }
}

#[test]
fn other_words_numbers_and_signs_do_not() {
    for after in [
        "$ does not work.",
        "$ must be rejected.",
        "$ is an upper bound.",
        "$ is twice the answer.",
        "$ pairs of shoes",
        "$ k",
        "$ tops",
        "$ eggs and 12 boxes",
        "$ boxes of 12 eggs",
        "$ half eggs",
        "$ minus $37$",
        "$ to 40",
        "$ to $37$",
        "$ (NOT)",
        "$ (one of two)",
        "$ (x2)",
        "$ (in thousands)",
        "$ (37 total)",
        "$ for even n and $37$ for odd n",
        "$²",
        "$½",
        "$‰",
        "$％",
        "$万",
        "$以上",
        "$或37",
        "$，37",
        "$ Millionen",
        "$ oder mehr",
        "$ ist falsch.",
        "$ n'est pas la réponse.",
        "$ или больше",
    ] {
        assert!(!accounted(after), "{after}");
    }
}
